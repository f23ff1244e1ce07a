/*
 * A client of the control socket of the supervisor on this host. Every wait has a limit. If the supervisor cannot be
 * reached, it prints the reason.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <bsd/string.h>

#include "admin/cli/control.h"

#include "common/base/base.h"

#define ANSWER_TIMEOUT_MS 10000		/* a reload looks up users and reads files */
#define LOOK_EVERY_MS 3000	/* a stop: at what it waits for */
#define TELL_EVERY_MS 10000
#define ANSWER_MAX (64 * 1024 * 1024)

/* -1: errno says why. */
static int connect_socket(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd, saved;

	if (strlcpy(address.sun_path, path, sizeof(address.sun_path)) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd == -1)
		return -1;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

const char *control_path(const struct admin *a)
{
	return a->options.socket != NULL ? a->options.socket : a->conf->supervisor.control_socket;
}

static int fail_connect(struct admin *a)
{
	const char *path = control_path(a);
	bool silent = errno == ENOENT || errno == ECONNREFUSED;
	int error = errno;

	if (silent && !a->served)
		admin_say_flaws(a);
	if (silent && a->flawed && a->options.socket == NULL)
		return admin_fail(a, EX_UNAVAILABLE, "no supervisor answers at %s; the configuration has errors, so if "
		    "that is not its control socket: -s SOCKET", path);
	if (silent) {
		admin_fail(a, EX_UNAVAILABLE, "no supervisor answers at %s", path);
		if (a->options.socket == NULL)
			admin_note_conf(a);
		return -1;
	}
	if (error == EACCES || error == EPERM)
		return admin_fail(a, EX_NOPERM, "%s: %s (its owner, and the owner's group, may)", path,
		    strerror(error));
	return admin_fail(a, EX_UNAVAILABLE, "%s: %s", path, strerror(error));
}

/* 1: ready, 0: timeout, -1: errno. */
static int wait_for(int fd, short events, int64_t until_ms)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = events };
		int64_t left = until_ms - clock_monotonic_ms();
		int n;

		if (left <= 0)
			return 0;
		n = poll(&p, 1, left > 1000 ? 1000 : (int)left);
		if (n > 0)
			return 1;
		if (n == -1 && errno != EINTR)
			return -1;
	}
}

static int send_all(int fd, const char *data, size_t len, int64_t until_ms)
{
	while (len > 0) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

		if (n == -1 && errno != EAGAIN && errno != EINTR)
			return -1;
		if (n > 0) {
			data += n;
			len -= (size_t)n;
			continue;
		}
		if (wait_for(fd, POLLOUT, until_ms) != 1) {
			errno = ETIMEDOUT;
			return -1;
		}
	}
	return 0;
}

/* A line without its newline. -1: errno; 0 and no newline: the other end closed. */
static int receive_line(int fd, struct buffer *line, int64_t until_ms)
{
	char chunk[16 * 1024];

	for (;;) {
		ssize_t n = recv(fd, chunk, sizeof(chunk), 0);
		const char *end;

		if (n == 0)
			return 0;
		if (n == -1 && errno != EAGAIN && errno != EINTR)
			return -1;
		if (n == -1) {
			if (wait_for(fd, POLLIN, until_ms) == 1)
				continue;
			errno = ETIMEDOUT;
			return -1;
		}
		end = memchr(chunk, '\n', (size_t)n);
		buffer_append(line, chunk, end == NULL ? (size_t)n : (size_t)(end - chunk));
		if (end != NULL)
			return 0;
		if (line->len > ANSWER_MAX) {
			errno = EMSGSIZE;
			return -1;
		}
	}
}

/* NULL: errno, or 0 if the connection was closed or the answer is not JSON. */
static json_t *exchange(int fd, json_t *request, int64_t timeout_ms)
{
	int64_t until = clock_monotonic_ms() + timeout_ms;
	struct buffer line = {0};
	char *text = json_dumps(request, JSON_COMPACT);
	json_t *answer = NULL;
	int saved = 0;

	if (text != NULL)
		buffer_format(&line, "%s\n", text);
	free(text);
	if (send_all(fd, line.data, line.len, until) == -1) {
		saved = errno;
	} else {
		buffer_clear(&line);
		if (receive_line(fd, &line, until) == -1)
			saved = errno;
		else if (line.len > 0)
			answer = json_loadb(line.data, line.len, 0, NULL);
	}
	buffer_free(&line);
	errno = saved;
	return answer;
}

static json_t *request_of(const char *command, json_t *more)
{
	json_t *request = json_pack("{s:s}", "command", command);

	if (more != NULL)
		json_object_update(request, more);
	json_decref(more);
	return request;
}

const char *control_silence(int error)
{
	return error != 0 ? strerror(error)
	    : "it closed the connection (only its owner and the owner's group may ask)";
}

/* Sends a request. NULL: no answer; an error was printed. An answer that is not "ok" is returned, too, after its error
 * was printed. */
static json_t *send_order(struct admin *a, int fd, json_t *request)
{
	json_t *answer = exchange(fd, request, ANSWER_TIMEOUT_MS);
	const char *error;

	if (answer == NULL) {
		admin_fail(a, EX_UNAVAILABLE, "the supervisor: %s", control_silence(errno));
		return NULL;
	}
	if (json_is_true(json_object_get(answer, "ok")))
		return answer;
	error = json_string_value(json_object_get(answer, "error"));
	admin_fail(a, EX_TEMPFAIL, "the supervisor: %s", error != NULL ? error : "refused");
	return answer;
}

json_t *control_ask(struct admin *a, const char *command, json_t *more)
{
	json_t *request = request_of(command, more), *answer = NULL;
	int fd = connect_socket(control_path(a));

	if (fd == -1) {
		fail_connect(a);
	} else {
		answer = send_order(a, fd, request);
		close(fd);
	}
	json_decref(request);
	return answer;
}

char *control_unsaved(const json_t *status)
{
	const char *reason, *dir;
	json_int_t bytes = -1;

	if (json_unpack((json_t *)(uintptr_t)status, "{s:{s:{s:s,s:s}}}", "keeper", "unsaved", "reason", &reason,
	    "dir", &dir) == -1)
		return NULL;
	json_unpack((json_t *)(uintptr_t)status, "{s:{s:{s:I}}}", "keeper", "unsaved", "bytes", &bytes);
	if (bytes > 0)
		return alloc_format("the embedded Redis has acknowledged %lld bytes that are not in its file (%s): "
		    "make room in %s; quredis stop --fast gives them up", (long long)bytes, reason, dir);
	return alloc_format("quredisd cannot tell whether all is in the file of the embedded Redis (%s): look at "
	    "%s/redis.log; quredis stop --fast ends it nevertheless", reason, dir);
}

json_t *control_status(struct admin *a)
{
	json_t *request = request_of("status", NULL);
	int fd = connect_socket(control_path(a));
	json_t *answer = fd == -1 ? NULL : exchange(fd, request, ANSWER_TIMEOUT_MS);
	int saved = errno;

	json_decref(request);
	if (fd != -1)
		close(fd);
	errno = saved;
	return answer;
}

/* True: the stop waits until the embedded Redis can write its file; the user was told why. Any failure to ask:
 * false. */
static bool tell_unsaved(struct admin *a)
{
	json_t *answer = control_status(a);
	char *text = control_unsaved(answer);
	bool waits = text != NULL;

	if (waits)
		admin_note("%s", text);
	free(text);
	json_decref(answer);
	return waits;
}

/* Waits until the supervisor closes the connection, as it does when it exits; longer than wait_ms only while Redis
 * cannot write its file. */
static int await_exit(struct admin *a, int fd, int64_t wait_ms)
{
	struct buffer rest = {0};
	int64_t now_ms = clock_monotonic_ms(), end_ms = now_ms + wait_ms, tell_ms = now_ms, until_ms;
	int rc = 0;

	while (rc == 0) {
		until_ms = now_ms + LOOK_EVERY_MS;
		if (receive_line(fd, &rest, until_ms) == 0 || errno != ETIMEDOUT)
			break;
		now_ms = clock_monotonic_ms();
		if (now_ms >= tell_ms && tell_unsaved(a)) {
			tell_ms = now_ms + TELL_EVERY_MS;
			end_ms = tell_ms + wait_ms;
		}
		if (now_ms >= end_ms)
			rc = admin_fail(a, EX_TEMPFAIL, "it is still running; quredis status shows what it waits for");
	}
	buffer_free(&rest);
	return rc;
}

int control_stop(struct admin *a, bool fast, int64_t wait_ms)
{
	json_t *request = request_of("stop", json_pack("{s:b}", "fast", (int)fast)), *answer;
	int fd = connect_socket(control_path(a)), rc = -1;

	if (fd == -1) {
		fail_connect(a);
	} else if ((answer = send_order(a, fd, request)) != NULL) {
		rc = json_is_true(json_object_get(answer, "ok")) ? 0 : -1;
		json_decref(answer);
		if (rc == 0 && wait_ms > 0)
			rc = await_exit(a, fd, wait_ms);
	}
	json_decref(request);
	if (fd != -1)
		close(fd);
	return rc;
}

/* ---- handlers that run ---- */

static const json_t *workers_here(struct admin *a)
{
	if (!a->status_asked)
		a->supervisor = control_status(a);
	a->status_asked = true;
	return json_object_get(a->supervisor, "workers");
}

int64_t control_elapsed(struct admin *a, const struct queue_worker *w)
{
	const json_t *workers = workers_here(a), *worker;
	size_t i;

	json_array_foreach(workers, i, worker) {
		const char *incarnation = json_string_value(json_object_get(worker, "incarnation"));
		const json_t *running = json_object_get(worker, "running_ms");

		if (incarnation != NULL && strcmp(incarnation, w->incarnation) == 0 && json_is_integer(running))
			return json_integer_value(running);
	}
	return -1;
}
