/*
 * purge.check: a command that may object. It is run without a shell, one at a time, with the message on standard
 * input and what is known of it in the environment, and for a limited time. Only exit status 0 agrees.
 */
#include <sys/mman.h>
#include <sys/wait.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sweeper/purge.h"

#include "common/alloc.h"
#include "common/process.h"
#include "sweeper/sweeper.h"

#define TIMEOUT_MS 10000
#define SAID_MAX 200		/* of what it says, in the log */

struct question {
	char *const *command;
	char *environment[8];		/* owned, NULL at the end */
	const char *message;
	size_t len;
};

static int be_input(const struct question *q)
{
	int fd = memfd_create("message", MFD_CLOEXEC);
	size_t done = 0;

	while (fd != -1 && done < q->len) {
		ssize_t n = write(fd, q->message + done, q->len - done);

		if (n == -1 && errno != EINTR)
			return -1;
		done += n > 0 ? (size_t)n : 0;
	}
	return fd == -1 || lseek(fd, 0, SEEK_SET) == -1 || dup2(fd, STDIN_FILENO) == -1 ? -1 : 0;
}

/* In the errand: what it says is told if it does not agree. */
static int execute(void *arg, int out)
{
	const struct question *q = arg;

	if (be_input(q) == -1 || dup2(out, STDOUT_FILENO) == -1 || dup2(out, STDERR_FILENO) == -1 || chdir("/") == -1) {
		dprintf(out, "%s", strerror(errno));
		return 126;
	}
	execve(q->command[0], q->command, q->environment);
	dprintf(out, "%s", strerror(errno));
	return 127;
}

static struct question *question_new(const struct sweeper *s, const struct swept *q)
{
	struct question *question = alloc_zero(1, sizeof(*question));
	const struct purge *p = &q->purge;
	struct message m;

	message_parse(&m, p->asked.len == 0 ? "" : p->asked.data, p->asked.len);
	*question = (struct question){
		.command = q->conf->purge.check,
		.environment = {
			alloc_string("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
			alloc_format("QUREDIS_QUEUE=%s", q->keys.name),
			alloc_format("QUREDIS_ID=%s", message_id(&m)),
			alloc_format("QUREDIS_AGE_MS=%" PRId64, p->asked_verdict.excess.age_ms),
			alloc_format("QUREDIS_LIMIT_MS=%" PRId64, p->asked_verdict.excess.limit_ms),
			alloc_format("QUREDIS_REASON=%s", p->asked_verdict.rule),
			alloc_format("QUREDIS_DRY_RUN=%d", s->conf->purge.dry_run),
		},
		.message = m.raw + m.wrapper_len,
		.len = m.raw_len - m.wrapper_len,
	};
	return question;
}

static void question_free(struct question *question)
{
	for (char **e = question->environment; *e != NULL; e++)
		free(*e);
	free(question);
}

/* Once a round: what is wrong with it is wrong each time. */
static void failed(struct swept *q, const char *error)
{
	if (!q->purge.check_failed)
		log_warning("purge_check_failed", log_str("queue", q->keys.name), log_str("command", q->conf->purge.check[0]),
		    log_str("error", error), log_str("advice", "what it is asked about stays where it is"));
	q->purge.check_failed = true;
}

int purge_check_start(struct sweeper *s, struct swept *q, int64_t now_ms)
{
	struct question *question = question_new(s, q);
	int rc = errand_start(&s->purge_check.errand, execute, question, TIMEOUT_MS, now_ms);

	if (rc == -1)
		failed(q, strerror(errno));
	else
		s->purge_check.q = q;
	question_free(question);
	return rc;
}

static void log_end(struct swept *q, const struct errand *e, int status)
{
	char said[SAID_MAX + 1], why[SAID_MAX + 64];
	size_t len = e->said.len < SAID_MAX ? e->said.len : SAID_MAX;

	memcpy(said, e->said.data == NULL ? "" : e->said.data, len);
	said[len] = '\0';
	said[strcspn(said, "\n")] = '\0';
	if (e->killed)
		snprintf(why, sizeof(why), "it took longer than %d s", TIMEOUT_MS / 1000);
	else if (WIFSIGNALED(status))
		snprintf(why, sizeof(why), "killed by %s", process_signal_name(WTERMSIG(status)));
	else
		snprintf(why, sizeof(why), "exit status %d: %s", WEXITSTATUS(status), said);
	if (e->killed || WIFSIGNALED(status) || WEXITSTATUS(status) >= 126)
		failed(q, why);
	else
		log_debug("message_spared", log_str("queue", q->keys.name), log_str("error", why));
}

bool purge_check_ended(struct sweeper *s, bool *agreed, int64_t now_ms)
{
	struct purge_check *c = &s->purge_check;
	int status;

	if (!errand_look(&c->errand, &status, now_ms))
		return false;
	*agreed = !c->errand.killed && WIFEXITED(status) && WEXITSTATUS(status) == 0;
	if (!*agreed)
		log_end(c->q, &c->errand, status);
	c->q = NULL;
	return true;
}

void purge_check_stop(struct sweeper *s)
{
	errand_free(&s->purge_check.errand);
	s->purge_check.q = NULL;
}
