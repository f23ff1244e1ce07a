/* The cause of an open breaker: through one word, to a sentence and to a label. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/base/base.h"
#include "common/handler/cause.h"
#include "common/handler/handler.h"
#include "common/handler/spawn.h"
#include "tests/unit/unit.h"

static void assert_texts(uint64_t word, const char *text, const char *label)
{
	char out[HANDLER_CAUSE_SIZE];

	assert_string_equal(handler_cause_text(word, (char *[]){ (char *)"/opt/mail", NULL }, out), text);
	assert_string_equal(handler_cause_label(word, out), label);
}

TEST(what_cannot_be_executed)
{
	assert_texts(handler_cause_unrunnable("execve", ENOENT),
	    "its handler cannot be executed: execve /opt/mail: No such file or directory", "execve: No such file or directory");
	assert_texts(handler_cause_unrunnable("interpreter", ENOENT),
	    "its handler cannot be executed: interpreter of /opt/mail: No such file or directory (the one in its first line, or the loader of a binary)",
	    "interpreter: No such file or directory");
	assert_texts(handler_cause_unrunnable("execve", EACCES), "its handler cannot be executed: execve /opt/mail: Permission denied",
	    "execve: Permission denied");
	assert_texts(handler_cause_unrunnable("execve", ENOEXEC),
	    "its handler cannot be executed: execve /opt/mail: Exec format error (no program, and no #! in its first line)", "execve: Exec format error");
	assert_texts(handler_cause_unrunnable("chdir", ENOENT), "its handler cannot be executed: chdir: No such file or directory",
	    "chdir: No such file or directory");
	assert_texts(handler_cause_unrunnable(NULL, EMFILE), "its handler cannot be executed: start: Too many open files", "start: Too many open files");
	assert_texts(handler_cause_unrunnable("no such step", EMFILE), "its handler cannot be executed: start: Too many open files",
	    "start: Too many open files");
}

TEST(each_step_has_its_word)
{
	char text[HANDLER_CAUSE_SIZE];

	for (int i = HANDLER_STAGE_NONE + 1; i < HANDLER_STAGES; i++) {
		handler_cause_label(handler_cause_unrunnable(handler_stage_names[i], EPERM), text);
		assert_true(strncmp(text, handler_stage_names[i], strlen(handler_stage_names[i])) == 0);
	}
}

TEST(what_does_not_answer)
{
	assert_texts(handler_cause_mute(3, 0), "its handler ended before its first answer, with exit status 3", "no answer");
	assert_texts(handler_cause_mute(-1, SIGSEGV), "its handler ended before its first answer, with SIGSEGV", "no answer");
	assert_texts(handler_cause_mute(-1, 0), "its handler ended before its first answer", "no answer");
	assert_texts(handler_cause_idle(-1, SIGKILL), "its handler ended while it had no message, with SIGKILL", "no answer");
	assert_true(handler_cause_is_of_start(handler_cause_idle(0, 0)) && !handler_cause_is_of_start(handler_cause_mute(0, 0)));
	assert_texts(handler_cause_unready(false, 1, 0), "its handler ended before it was ready, with exit status 1", "not ready");
	assert_texts(handler_cause_unready(false, -1, SIGKILL), "its handler ended before it was ready, with SIGKILL", "not ready");
	assert_texts(handler_cause_unready(true, -1, SIGTERM), "its handler was not ready within start_timeout", "not ready");
}

TEST(what_fails_in_a_row)
{
	struct handler_result r = { .end = HANDLER_EXITED, .code = 1 };

	assert_texts(handler_cause_failures(20, &r), "20 different messages failed in a row, the last one with exit status 1", "failures");
	r = (struct handler_result){ .end = HANDLER_SIGNALED, .code = -1, .signal = SIGKILL };
	assert_texts(handler_cause_failures(2, &r), "2 different messages failed in a row, the last one with SIGKILL", "failures");
	r = (struct handler_result){ .end = HANDLER_TIMED_OUT, .code = -1, .signal = SIGTERM };
	assert_texts(handler_cause_failures(5, &r), "5 different messages failed in a row, the last one with a timeout", "failures");
	assert_texts(handler_cause_failures(100000, NULL), "65535 different messages failed in a row, the last one with a reply", "failures");
}

TEST(a_path_may_have_any_bytes)
{
	char out[HANDLER_CAUSE_SIZE], path[1000];

	handler_cause_text(handler_cause_unrunnable("execve", EACCES), (char *[]){ (char *)"/opt/\xff\n\xc3\xa9", NULL }, out);
	assert_string_equal(out, "its handler cannot be executed: execve /opt/????: Permission denied");
	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	handler_cause_text(handler_cause_unrunnable("execve", EACCES), (char *[]){ path, NULL }, out);
	assert_non_null(strstr(out, "xxx...: Permission denied"));
}

/* Any word of another process gives a text. */
TEST(a_damaged_word_does_no_harm)
{
	char out[HANDLER_CAUSE_SIZE], path[4096], *argv[] = { path, path, NULL };
	uint64_t word = 88172645463325252u;

	assert_texts(HANDLER_CAUSE_NONE, "its handler cannot be executed, or failed too often in a row", "unknown");
	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	for (int i = 0; i < 100000; i++) {
		word ^= word << 13;
		word ^= word >> 7;
		word ^= word << 17;
		assert_in_range(strlen(handler_cause_text(i % 2 == 0 ? word : (word & ~UINT64_C(0xff)) | (unsigned)(i % 5), argv, out)), 1,
		    HANDLER_CAUSE_SIZE - 1);
		assert_in_range(strlen(handler_cause_label(word, out)), 1, 100);
	}
}

int main(void)
{
	alarm(10);
	return unit_run(NULL, NULL);
}
