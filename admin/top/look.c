/*
 * Reads the document that quredis top shows, in a child process for each page. So keys and signals are handled at once,
 * however slow Redis is. The parent takes the output of the child without waiting, and kills a child that it does not
 * need any more.
 */
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "admin/top/top.h"
#include "admin/web/web.h"

#include "common/base/base.h"

#define DEAD_LETTERS_MAX 5

/* The last dead letters of a queue: { "queue", "records": as dlq ls }; NULL: they cannot be read. */
static json_t *read_dead_letters(const struct admin *a, const char *queue)
{
	struct options options = options_none();
	int status = 0;
	json_t *records;

	options.count = DEAD_LETTERS_MAX;
	records = web_answer_of(a, &options, "dlq ls", queue, &status);
	return records == NULL ? NULL : json_pack("{s:s, s:o}", "queue", queue, "records", records);
}

static _Noreturn void run_overview(const struct admin *a, const char *queue, int answer, int said)
{
	int status = 0;
	json_t *all, *dead_letters;

	process_reset_signals();
	if (dup2(answer, STDOUT_FILENO) == -1 || dup2(said, STDERR_FILENO) == -1)
		_exit(1);
	all = web_overview(a, &status);
	dead_letters = all == NULL || queue == NULL ? NULL : read_dead_letters(a, queue);
	if (dead_letters != NULL)
		json_object_set_new(all, "dead_letters", dead_letters);
	if (all != NULL && json_dumpf(all, stdout, JSON_COMPACT) == 0)
		fflush(stdout);
	_exit(all == NULL ? 1 : 0);
}

int top_look_begin(struct top_look *l, const struct admin *a, const char *queue, int64_t now_ms)
{
	int answer[2], said[2];

	if (pipe2(answer, O_CLOEXEC) == -1)
		return -1;
	if (pipe2(said, O_CLOEXEC) == -1) {
		close(answer[0]);
		close(answer[1]);
		return -1;
	}
	fflush(NULL);
	l->pid = fork();
	if (l->pid == 0)
		run_overview(a, queue, answer[1], said[1]);
	close(answer[1]);
	close(said[1]);
	l->answer = answer[0];
	l->said = said[0];
	l->begun_ms = now_ms;
	if (l->pid != -1)
		return 0;
	close(answer[0]);
	close(said[0]);
	l->pid = 0;
	return -1;
}

/* Reads the available bytes. At the end of input or an error it closes the descriptor. */
static void take_bytes(int *fd, struct buffer *into)
{
	char chunk[65536];
	ssize_t n = read(*fd, chunk, sizeof(chunk));

	if (n > 0) {
		buffer_append(into, chunk, (size_t)n);
	} else if (n == 0 || errno != EINTR) {
		close(*fd);
		*fd = -1;
	}
}

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return fd != -1 && poll(&p, 1, 0) > 0;
}

/* The last line that the child wrote to standard error, without "quredis: "; a new string. */
static char *last_words(const struct buffer *said)
{
	char *all = alloc_copy(said->data == NULL ? "" : said->data, said->len), *line = all, *words;

	for (size_t len = strlen(all); len > 0 && all[len - 1] == '\n'; len--)
		all[len - 1] = '\0';
	if (strrchr(all, '\n') != NULL)
		line = strrchr(all, '\n') + 1;
	if (strncmp(line, "quredis: ", 9) == 0)
		line += 9;
	words = alloc_string(*line == '\0' ? "there was no answer" : line);
	free(all);
	return words;
}

bool top_look_take(struct top_look *l, json_t **document, char **words)
{
	while (is_readable(l->answer))
		take_bytes(&l->answer, &l->document);
	while (is_readable(l->said))
		take_bytes(&l->said, &l->words);
	if (l->pid == 0 || l->answer != -1 || l->said != -1)
		return false;
	*document = json_loadb(l->document.data == NULL ? "" : l->document.data, l->document.len, 0, NULL);
	*words = *document != NULL ? NULL : last_words(&l->words);
	top_look_end(l);
	return true;
}

void top_look_end(struct top_look *l)
{
	if (l->pid == 0)
		return;
	kill(l->pid, SIGKILL);
	while (waitpid(l->pid, NULL, 0) == -1 && errno == EINTR)
		;
	if (l->answer != -1)
		close(l->answer);
	if (l->said != -1)
		close(l->said);
	buffer_free(&l->document);
	buffer_free(&l->words);
	*l = (struct top_look){0};
}
