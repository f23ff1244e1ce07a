/* A worker with a connection that only keeps what is sent, and with replies that the test writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>
#include <cmocka.h>
#include <hiredis/hiredis.h>
#include <hiredis/sds.h>

#include "tests/unit/worker/worker_fixture.h"

#include "common/base/base.h"
#include "common/log/log.h"
#include "common/redis/reply.h"
#include "tests/unit/sealed.h"

#define REPLIES_MAX 512
#define SEALED_MAX 16

struct worker *w;
struct worker_fixture fixture;

static char *handler[] = { (char *)"/bin/handler", NULL };
static redisReply *replies[REPLIES_MAX];
static struct redis_reply views[REPLIES_MAX];
static struct buffer sealed[SEALED_MAX], sent;
static int nreplies, nsealed;
static size_t looked_at;	/* bytes of the commands on the connection */
static int log_fd = -1;
static struct buffer received;		/* what the next read finds */
static redisContext *receiver, *hung_up;
bool fixture_refuses;
static char sums[QUEUE_SCRIPT_COUNT][ENCODE_SHA1_SIZE];

/* ---- a runner that runs nothing ---- */

static void init(struct worker *worker)
{
	(void)worker;
}

static int room(const struct worker *worker)
{
	(void)worker;
	return fixture.runner.room;
}

static bool ready(const struct worker *worker)
{
	(void)worker;
	return !fixture.runner.not_ready;
}

static void start(struct worker *worker, int64_t now_ms)
{
	(void)worker, (void)now_ms;
	fixture.runner.starts++;
}

static int64_t deadline_ms(const struct worker *worker)
{
	(void)worker;
	return fixture.runner.deadline_ms;
}

static const struct runner runner = { .init = init, .free = init, .room = room, .ready = ready, .start = start, .deadline_ms = deadline_ms };

/* ---- its connection ---- */

static void connect_to_nothing(struct redis *r)
{
	r->context = redisConnectFd(-1);
	assert_non_null(r->context);
	r->state = REDIS_READY;
	looked_at = 0;
}

static size_t count_of(char kind)
{
	const char *line = w->session.redis.context->obuf + looked_at, *end = strchr(line, '\n');

	assert_true(end != NULL && line[0] == kind);
	looked_at += (size_t)(end - line) + 1;
	return strtoull(line + 1, NULL, 10);
}

static const char *next_word(size_t *len)
{
	const char *word;

	*len = count_of('$');
	word = w->session.redis.context->obuf + looked_at;
	looked_at += *len + 2;
	return word;
}

static const char *name_of(const char *sha1)
{
#define X(name, before) #name,
	static const char *const names[] = { QUEUE_SCRIPTS(X) };
#undef X
	for (size_t i = 0; i < nitems(names); i++)
		if (strncmp(sums[i], sha1, strlen(sums[i])) == 0)
			return names[i];
	fail();
	return NULL;
}

static void show_word(const char *word, size_t len)
{
	if (sent.len > 0)
		buffer_append(&sent, " ", 1);
	buffer_append(&sent, len == 0 ? "''" : word, len == 0 ? 2 : len);
}

const char *fixture_sent(void)
{
	size_t words, len;
	const char *word;

	buffer_clear(&sent);
	if (w->session.redis.context == NULL || looked_at == sdslen(w->session.redis.context->obuf))
		return "";
	words = count_of('*');
	word = next_word(&len);
	if (len == strlen("EVALSHA") && memcmp(word, "EVALSHA", len) == 0) {
		word = name_of(next_word(&len));
		len = strlen(word);
		next_word(&(size_t){0});
		words -= 2;
	}
	for (show_word(word, len); words > 1; words--) {
		word = next_word(&len);
		show_word(word, len);
	}
	buffer_append(&sent, "", 1);
	return sent.data;
}

void fixture_forget_sent(void)
{
	while (fixture_sent()[0] != '\0')
		;
}

void fixture_assert_sent(const char *begin, const char *file, int line)
{
	const char *command = fixture_sent();

	if (strncmp(command, begin, strlen(begin)) != 0) {
		print_error("sent: \"%.300s\", not: \"%s\"\n", command, begin);
		_fail(file, line);
	}
}

void fixture_assert_awaits(int answer, int tray, int item, const char *file, int line)
{
	struct answers *a = &w->session.answers;
	struct expected e = a->ring[a->first % ANSWERS_MAX];

	if (a->first == a->next || e.answer != answer || e.tray != tray || e.item != item) {
		print_error("awaits: %u answers, the first one %d of %d/%d, not: %d of %d/%d\n", a->next - a->first, e.answer, e.tray, e.item,
		    answer, tray, item);
		_fail(file, line);
	}
	a->first++;
}

/* Scripts are loaded in the order of QUEUE_SCRIPTS. */
static void learn_scripts(void)
{
	queue_scripts_load(&w->session.redis);
	for (int i = 0; i < QUEUE_SCRIPT_COUNT; i++) {
		size_t len;
		const char *text;

		assert_int_equal(count_of('*'), 3);
		next_word(&len);
		next_word(&len);
		text = next_word(&len);
		encode_sha1(text, len, sums[i]);
	}
}

/* ---- connections that the worker opens ---- */

redisContext *__wrap_redisConnectUnixNonBlock(const char *path);
int __wrap_redisBufferRead(redisContext *c);
int __wrap_redis_output_write(redisContext *c, struct redis_output *o);

redisContext *__wrap_redisConnectUnixNonBlock(const char *path)
{
	redisContext *c = redisConnectFd(-1);

	(void)path;
	assert_non_null(c);
	c->flags &= ~REDIS_BLOCK;
	if (fixture_refuses) {
		c->err = REDIS_ERR_IO;
		strlcpy(c->errstr, "Connection refused", sizeof(c->errstr));
	}
	looked_at = 0;
	return c;
}

int __wrap_redis_output_write(redisContext *c, struct redis_output *o)
{
	(void)c, (void)o;
	return 0;
}

int __wrap_redisBufferRead(redisContext *c)
{
	if (c == hung_up) {
		hung_up = NULL;
		c->err = REDIS_ERR_EOF;
		strlcpy(c->errstr, "Server closed the connection", sizeof(c->errstr));
		return REDIS_ERR;
	}
	if (c == receiver && received.len > 0)
		redisReaderFeed(c->reader, received.data, received.len);
	if (c == receiver)
		buffer_clear(&received);
	return REDIS_OK;
}

void fixture_receive(struct redis *r, const char *resp)
{
	assert_true(received.len == 0 || receiver == r->context);
	receiver = r->context;
	buffer_append(&received, resp, strlen(resp));
}

void fixture_hang_up(struct redis *r)
{
	hung_up = r->context;
}

void fixture_receive_greetings(void)
{
	struct redis *r = &w->session.redis;

	fixture_receive(r, "+OK\r\n:7\r\n*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
	for (int i = 0; i < QUEUE_SCRIPT_COUNT; i++)
		fixture_receive(r, "$3\r\nsha\r\n");
	fixture_receive(r, "$64\r\n" SEALED_SECRET "\r\n");
}

/* ---- replies ---- */

const struct redis_reply *fixture_reply(const char *resp)
{
	redisReader *reader = redisReaderCreate();
	void **reply = (void **)&replies[nreplies];

	assert_true(nreplies < REPLIES_MAX);
	redisReaderFeed(reader, resp, strlen(resp));
	assert_true(redisReaderGetReply(reader, reply) == REDIS_OK && *reply != NULL);
	redisReaderFree(reader);
	views[nreplies] = redis_reply_view(*reply);
	return &views[nreplies++];
}

const struct redis_reply *fixture_integer(int64_t n)
{
	char resp[32];

	snprintf(resp, sizeof(resp), ":%lld\r\n", (long long)n);
	return fixture_reply(resp);
}

const struct redis_reply *fixture_string(const char *text)
{
	char *resp = alloc_format("$%zu\r\n%s\r\n", strlen(text), text);
	const struct redis_reply *reply = fixture_reply(resp);

	free(resp);
	return reply;
}

/* ---- the log ---- */

static void open_log(void)
{
	char path[] = "/tmp/quredis-worker-log.XXXXXX";

	if (log_fd == -1) {
		log_fd = mkstemp(path);
		assert_int_not_equal(log_fd, -1);
		assert_int_equal(log_open(path, LOG_FORMAT_LOGFMT, LOG_LEVEL_DEBUG), 0);
		unlink(path);
	}
	assert_int_equal(ftruncate(log_fd, 0), 0);
}

int fixture_logged(const char *text)
{
	static char log[256 * 1024];
	ssize_t len = pread(log_fd, log, sizeof(log) - 1, 0);
	int n = 0;

	assert_in_range(len, 0, sizeof(log) - 2);
	log[len] = '\0';
	for (char *line = strtok(log, "\n"); line != NULL; line = strtok(NULL, "\n"))
		n += strstr(line, text) != NULL;
	return n;
}

uint64_t fixture_counted(enum counter counter)
{
	return atomic_load(&fixture.env->slot->counters[counter]);
}

/* ---- time, and messages ---- */

int64_t fixture_now_ms(void)
{
	return w->now_us / 1000;
}

int64_t fixture_pass_ms(int64_t ms)
{
	fake_time_pass_ms(ms);
	return worker_look_at_clock(w) / 1000;
}

void fixture_fill(int tray, const char *const *raws)
{
	int n = 0;

	while (raws[n] != NULL)
		n++;
	tray_ask(&w->trays, tray, n);
	for (int i = 0; i < n; i++)
		tray_add(&w->trays, tray, raws[i], strlen(raws[i]), false);
	for (int i = 0; i < n; i++)
		tray_answered(&w->trays, tray);
	tray_filled(&w->trays, tray);
}

struct item *fixture_item(int tray, int item)
{
	return tray_item(&w->trays, PLACE(tray, item));
}

const char *fixture_sealed(const char *text)
{
	assert_true(nsealed < SEALED_MAX);
	sealed_append(&sealed[nsealed], &fixture.env->keys.lines, text, strlen(text) + 1);
	return sealed[nsealed++].data;
}

void fixture_share(void)
{
	fixture.queue.shared = fixture.env->keys.shared = true;
}

/* ---- begin and end ---- */

static void configure(void)
{
	fixture.conf.redis.url = (char *)"unix:///fake";
	fixture.conf.supervisor.node = (char *)"n";
	fixture.conf.supervisor.lease_ms = LEASE_MS;
	fixture.queue = (struct conf_queue){ .name = (char *)"mail", .ingress = (char *)"i", .transit = (char *)"t", .escape = (char *)"e",
		.headers = true, .handler = handler, .window = 1, .timeout_ms = 60000, .kill_grace_ms = 5000, .workers = 1,
		.batch = { .max = 1000, .time_ms = 20 }, .message_max = 8 << 20, .max_attempts = 3,
		.backoff = { .base_ms = 1000, .factor = 2, .cap_ms = 60000 }, .ttl_ms = -1, .dead_letter = { .enabled = true } };
	for (int i = 1; i < 256; i++)
		fixture.queue.exit_codes[i] = CONF_OUTCOME_FAIL;
	fixture.queue.exit_codes[0] = CONF_OUTCOME_DONE;
	fixture.queue.exit_codes[75] = CONF_OUTCOME_RETRY;
	fixture.queue.exit_codes[65] = CONF_OUTCOME_ESCAPE;
	fixture.runner = (struct fixture_runner){ .room = 1, .deadline_ms = INT64_MAX };
	fixture.child = (struct child){ .conf = &fixture.conf, .queue = &fixture.queue, .board = &fixture.board, .slot = 1, .master_fd = -1,
		.boot = 0xb0, .lock_identity = "boot:1:2" };
	atomic_store(&fixture.board.queues[0].sweeper.gate, QUEUE_OPEN);
}

int fixture_setup_closed(void **state)
{
	(void)state;
	memset((void *)&fixture, 0, sizeof(fixture));
	fixture_refuses = false;
	fake_time_begin();
	open_log();
	configure();
	seal_learn(SEALED_SECRET);
	fixture.env = env_new(&fixture.child);
	w = alloc_zero(1, sizeof(*w));
	w->env = fixture.env;
	pacing_init(&w->pacing, &fixture.queue);
	evidence_init(w);
	too_large_init(w);
	tray_init(&w->trays, &fixture.env->keys);
	session_init(w, &worker_components);
	fetcher_init(w);
	fence_init(w);
	w->starter.runner = &runner;
	w->exec.running.tray = -1;
	worker_look_at_clock(w);
	if (sums[0][0] == '\0') {
		connect_to_nothing(&w->session.redis);
		learn_scripts();
		redis_close(&w->session.redis, NULL);
	}
	return 0;
}

int fixture_setup(void **state)
{
	struct session *s;

	fixture_setup_closed(state);
	s = &w->session;
	connect_to_nothing(&s->redis);
	s->id.generation = slot_next_generation(fixture.env->slot);
	incarnation_format(&s->id, s->incarnation);
	queue_owner_init(&s->owner, &fixture.env->keys, s->incarnation, LEASE_MS);
	s->registered = s->confirmed = true;
	s->lease.until_ms = clock_boottime_ms() + LEASE_MS;
	s->lease.next_ms = fixture_now_ms() + LEASE_MS / 4;
	s->redis.client_id = 7;
	return 0;
}

int fixture_teardown(void **state)
{
	(void)state;
	fence_free(w);
	mover_free(w);
	tray_free_all(&w->trays);
	fetcher_free(w);
	session_free(w);
	free(w);
	env_free(fixture.env);
	while (nreplies > 0)
		freeReplyObject(replies[--nreplies]);
	while (nsealed > 0)
		buffer_free(&sealed[--nsealed]);
	buffer_free(&sent), buffer_free(&received);
	receiver = hung_up = NULL;
	return 0;
}
