/* links: tests/fuzz/input.c */
/* ldflags: -Wl,--wrap=web_job_start */
/*
 * The console's server: requests of any bytes, in any pieces, on one connection. Where one request ends and the next begins is
 * judged here a second time, by other code: behind a request with a body nothing is answered. Nothing that needs the token
 * begins unless the input holds the token or both secrets of a session, and no secret is ever said.
 *
 * Input: settings, the size of the pieces, what the children answer; then what is sent.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/http.h>
#include <jansson.h>

#include "tests/fuzz/input.h"

#include "admin/web/call.h"
#include "common/base/alloc.h"
#include "common/base/buffer.h"
#include "common/base/clock.h"
#include "common/base/nitems.h"
#include "common/base/unix_socket.h"

#define TURNS_MAX 5000
#define JOBS_MAX 256

/* 64 digits are no word that a fuzzer finds by itself: the dictionary has them. */
#define TOKEN "fuzz-token-0123456789"
#define REPEAT16(c) c c c c c c c c c c c c c c c c
#define REPEAT64(c) REPEAT16(c) REPEAT16(c) REPEAT16(c) REPEAT16(c)
#define SESSION_ID REPEAT64("a")
#define SESSION_KEY REPEAT64("b")
#define CODE REPEAT64("c")

static struct admin admin;
static struct web w;
static char path[64];
static const char *sent;	/* of this run */
static size_t sent_len;
static uint8_t outcome;		/* of the children of this run */
static struct web_question pending[JOBS_MAX];
static size_t npending;

int __wrap_web_job_start(struct web_jobs *jobs, const struct web_question *q);

/* ---- children ---- */

static bool has_sent(const char *text)
{
	return memmem(sent, sent_len, text, strlen(text)) != NULL;
}

static bool has_credentials(void)
{
	return has_sent(TOKEN) || (has_sent(SESSION_ID) && has_sent(SESSION_KEY));
}

/* Probes, and the one look for all viewers, are the server's own. */
int __wrap_web_job_start(struct web_jobs *jobs, const struct web_question *q)
{
	(void)jobs;
	if (!q->extra) {
		const struct web_call *call = q->arg;

		FUZZ_ASSERT(has_credentials() || (w.settings.public_reads && !call->route->post));
		FUZZ_ASSERT(!call->route->post || !w.settings.read_only);
	}
	if (!q->extra && npending == JOBS_MAX)
		return -1;
	FUZZ_ASSERT(npending < JOBS_MAX);
	pending[npending++] = *q;
	return 0;
}

static void answer_pending(void)
{
	static const struct web_job outcomes[] = { { .status = EX_OK << 8 }, { .status = EX_NOINPUT << 8 }, { .status = EX_UNAVAILABLE << 8 },
		{ .status = 9, .late = true }, { .status = 9, .too_large = true }, { .unstarted = true }, { .status = 11 } };
	static const char *const documents[] = { "[]\n", "{\"count\":1}\n", "", "{\"broken\n" };
	static const char *const said[] = { "", "quredis: no\nquredis: \xff\n" };

	for (size_t i = 0; i < npending; i++) {
		struct web_job job = outcomes[outcome % nitems(outcomes)];

		job.time_ms = WEB_JOB_MS;
		job.answer_max = WEB_ANSWER_MAX;
		buffer_format(&job.answer, "%s", documents[outcome / nitems(outcomes) % nitems(documents)]);
		buffer_format(&job.said, "%s", said[outcome / nitems(outcomes) / nitems(documents) % nitems(said)]);
		pending[i].done(&job, pending[i].arg);
		buffer_free(&job.answer);
		buffer_free(&job.said);
	}
	npending = 0;
}

/* ---- the server ---- */

static void begin(uint8_t flags)
{
	int64_t now = clock_boottime_ms();

	w.settings.public_reads = (flags & 1) != 0;
	w.settings.read_only = (flags & 2) != 0;
	w.sessions = (struct web_sessions){ .code = CODE, .code_until_ms = now + WEB_CODE_MS };
	w.sessions.all[0] = (struct web_session){ .id = SESSION_ID, .key = SESSION_KEY, .until_ms = now + WEB_SESSION_MS };
	w.probe.until_ms = 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	snprintf(path, sizeof(path), "/tmp/fuzz_http.%d", getpid());
	/* behind a proxy, so that the peer, which is this process itself, has no rights */
	w = (struct web){ .a = &admin, .settings = { .host = alloc_string("localhost"), .path = alloc_string(path), .port = alloc_string("7379"),
		.token = alloc_string(TOKEN), .behind_proxy = true, .loopback = true } };
	if (getenv("FUZZ_LOG") == NULL)
		FUZZ_ASSERT((stderr = fopen("/dev/null", "we")) != NULL);
	FUZZ_ASSERT(web_open(&w, unix_socket_listen(path, 16, &w.socket)) == 0);
	return 0;
}

static int connect_to_server(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	FUZZ_ASSERT(fd != -1 && connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0);
	return fd;
}

static void turn(void)
{
	event_base_loop(w.base, EVLOOP_NONBLOCK);
	answer_pending();
}

/* false: the connection is at its end. */
static bool receive(int fd, struct buffer *answers)
{
	char chunk[4096];
	ssize_t n;

	while ((n = recv(fd, chunk, sizeof(chunk), 0)) > 0)
		buffer_append(answers, chunk, (size_t)n);
	return n == -1 && errno == EAGAIN;
}

/* Everything that comes back. */
static void talk(size_t piece, struct buffer *answers)
{
	int fd = connect_to_server();
	bool is_open = true;

	turn();
	for (size_t at = 0; is_open && at < sent_len; at += piece) {
		send(fd, sent + at, sent_len - at < piece ? sent_len - at : piece, MSG_NOSIGNAL);
		turn();
		is_open = receive(fd, answers);
	}
	for (int i = 0; is_open && i < 20; i++) {	/* requests behind each other are answered one a turn */
		turn();
		is_open = receive(fd, answers);
	}
	FUZZ_ASSERT(w.stream.nviewers == 0 || w.settings.public_reads || has_credentials());
	close(fd);
	for (int i = 0; !TAILQ_EMPTY(&w.clients); i++) {
		FUZZ_ASSERT(i < TURNS_MAX);
		turn();
	}
	FUZZ_ASSERT(w.stream.nviewers == 0 && w.probe.nwaiting == 0);
}

/* ---- what was asked, read a second time ---- */

struct asked {
	size_t whole;		/* requests whose head is there to its end */
	size_t last;		/* behind this one, counted from 1, nothing is a request; SIZE_MAX: none has a body */
};

static const char *line_end(const char *at, const char *end)
{
	return memchr(at, '\n', (size_t)(end - at));
}

/* A header that says that a body follows. */
static bool tells_of_body(const char *line, size_t len)
{
	const char *colon = memchr(line, ':', len), *value;
	size_t name = colon == NULL ? 0 : (size_t)(colon - line);

	while (name > 0 && (isspace((unsigned char)*line) || iscntrl((unsigned char)*line))) {
		line++;
		name--;
	}
	while (name > 0 && (isspace((unsigned char)line[name - 1]) || iscntrl((unsigned char)line[name - 1])))
		name--;
	if (name == 17 && strncasecmp(line, "Transfer-Encoding", 17) == 0)
		return true;
	if (name != 14 || strncasecmp(line, "Content-Length", 14) != 0)
		return false;
	for (value = colon + 1; value < colon + 1 + strspn(colon + 1, " \t"); value++)
		;
	return value[0] != '0' || (value[1] != '\r' && value[1] != '\n');
}

static struct asked read_requests(const char *at, size_t len)
{
	struct asked asked = { .last = SIZE_MAX };
	const char *end = at + len, *eol;
	bool in_head = false;

	for (; (eol = line_end(at, end)) != NULL; at = eol + 1) {
		size_t n = (size_t)(eol - at);

		if (n == 0 || (n == 1 && at[0] == '\r')) {
			asked.whole++;
			in_head = false;
			continue;
		}
		/* a line that begins with a blank goes on with the one before */
		if (in_head && at[0] != ' ' && at[0] != '\t' && asked.last == SIZE_MAX && tells_of_body(at, n))
			asked.last = asked.whole + 1;
		in_head = true;
	}
	return asked;
}

/* ---- what was answered ---- */

/* Of name in the head; NULL: it is not there. A new string. */
static char *header_of(const char *head, size_t len, const char *name)
{
	const char *at = head, *end = head + len, *eol;

	for (; (eol = line_end(at, end)) != NULL; at = eol + 1)
		if ((size_t)(eol - at) > strlen(name) + 2 && strncasecmp(at, name, strlen(name)) == 0 && at[strlen(name)] == ':')
			return alloc_copy(at + strlen(name) + 2, (size_t)(eol - at) - strlen(name) - 3);
	return NULL;
}

static void check_headers(const char *head, size_t len)
{
	static const char *const always[] = { "Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy", "Cache-Control" };

	for (size_t i = 0; i < nitems(always); i++) {
		char *value = header_of(head, len, always[i]);

		FUZZ_ASSERT(value != NULL);
		free(value);
	}
}

static void check_error(const char *body, size_t len)
{
	json_t *document = json_loadb(body, len, 0, NULL);

	FUZZ_ASSERT(json_string_length(json_object_get(document, "error")) > 0);
	json_decref(document);
}

/* The bytes of the body that follow this head. A HEAD has none, nor has 304; where the next answer begins at once, it was one. */
static size_t check_answer(int code, const char *head, size_t head_len, const char *body, size_t left, bool *closes)
{
	char *length = header_of(head, head_len, "Content-Length"), *chunked = header_of(head, head_len, "Transfer-Encoding");
	char *connection = header_of(head, head_len, "Connection"), *type = header_of(head, head_len, "Content-Type");
	size_t n = length == NULL ? 0 : strtoul(length, NULL, 10);

	check_headers(head, head_len);
	FUZZ_ASSERT(length != NULL || chunked != NULL || code == 304 || memcmp(head, "HTTP/1.0", 8) == 0);
	*closes = connection != NULL && strcasecmp(connection, "close") == 0;
	if (code == 304)
		n = 0;
	else if (length == NULL)		/* to the end: a stream of events, or HTTP/1.0 */
		n = left;
	else if (n > 0 && (left == 0 || (left >= 8 && memcmp(body, "HTTP/1.", 7) == 0)))
		n = 0;
	FUZZ_ASSERT(n <= left);
	if (code >= 400 && n > 0 && type != NULL && strcmp(type, "application/json") == 0)
		check_error(body, n);
	free(length);
	free(chunked);
	free(connection);
	free(type);
	return n;
}

static size_t check_answers(const struct buffer *answers)
{
	const char *at = answers->data, *end = at + answers->len;
	bool closes = false;
	size_t n = 0;

	while (at < end) {
		const char *blank = memmem(at, (size_t)(end - at), "\r\n\r\n", 4);
		int minor, code;

		FUZZ_ASSERT(blank != NULL && sscanf(at, "HTTP/1.%1d %3d ", &minor, &code) == 2);
		if (code == 100) {
			at = blank + 4;
			continue;
		}
		FUZZ_ASSERT(!closes);
		at = blank + 4 + check_answer(code, at, (size_t)(blank + 2 - at), blank + 4, (size_t)(end - blank - 4), &closes);
		n++;
	}
	return n;
}

static void check_secrets(const struct buffer *answers)
{
	static const char *const secrets[] = { TOKEN, SESSION_ID, SESSION_KEY, CODE };

	/* what the client said itself may come back to it, in the words about it */
	for (size_t i = 0; i < nitems(secrets); i++)
		FUZZ_ASSERT(has_sent(secrets[i]) || memmem(answers->data, answers->len, secrets[i], strlen(secrets[i])) == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t flags = input_byte(&in);
	size_t piece = input_byte(&in), n;
	struct buffer answers = {0};
	struct asked asked;

	outcome = input_byte(&in);
	begin(flags);
	sent = (const char *)in.at;
	sent_len = in.left;
	talk(piece == 0 ? 16384 : piece, &answers);
	buffer_append(&answers, "", 1);
	answers.len--;
	if (getenv("FUZZ_LOG") != NULL)
		dprintf(2, "%.*s\n", (int)answers.len, answers.data);
	n = check_answers(&answers);
	check_secrets(&answers);
	asked = read_requests(sent, sent_len);
	FUZZ_ASSERT(n <= asked.whole + 1 && n <= asked.last);
	buffer_free(&answers);
	return 0;
}
