/*
 * A server that may be honest. It stands where hiredis would read and write a socket, so that a whole session
 * costs no system call; hiredis' own parser, and all that is built on it, are the real ones.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include <bsd/string.h>
#include <hiredis/hiredis.h>
#include <hiredis/sds.h>

#include "tests/fuzz/fake_redis.h"

#include "common/base/encode.h"
#include "common/message/message.h"
#include "common/base/nitems.h"
#include "common/queue/scripts.h"
#include "tests/fuzz/fake_answers.h"
#include "tests/fuzz/fake_time.h"

#define CONNECTIONS 4
#define FD_BASE 100000			/* no descriptor of this process has such a number */
#define READ_MAX 16384			/* what hiredis reads at a time */
#define FLOOD_MAX (1 << 20)

static struct connection {
	redisContext *context;		/* NULL: free */
	struct buffer asked;		/* commands that are not answered */
	size_t asked_at;
	struct buffer out;		/* answers that are not read */
	size_t out_at;
	struct buffer last;		/* the last answer, to be given again */
	size_t slice;			/* bytes a read gives */
	size_t flood;			/* bytes of nothing that follow */
	unsigned scripts;		/* loaded so far */
	bool cut;
} connections[CONNECTIONS];

static struct input *input;
static const struct fake_redis_target *target;

redisContext *__wrap_redisConnectUnixNonBlock(const char *path);
redisContext *__wrap_redisConnectNonBlock(const char *ip, int port);
void __real_redisFree(redisContext *c);
void __wrap_redisFree(redisContext *c);
int __wrap_redisBufferRead(redisContext *c);
int __wrap_redis_output_write(redisContext *c, struct redis_output *o);
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask);

void fake_redis_begin(struct input *in, const struct fake_redis_target *t)
{
	input = in;
	target = t;
	fake_answers_begin(in);
}

void fake_redis_end(void)
{
	for (size_t i = 0; i < nitems(connections); i++)
		FUZZ_ASSERT(connections[i].context == NULL);
}

bool fake_redis_is(const struct fake_command *c, const char *name)
{
	return c->argc > 0 && strcmp(c->argv[0], name) == 0;
}

void fake_redis_check(const struct redis *r)
{
	const redisContext *c = r->context;

	if (r->state != REDIS_READY)
		return;
	FUZZ_ASSERT(r->pending >= 0);
	if (r->pending == 0)
		FUZZ_ASSERT(c->reader->pos == c->reader->len);
}

/* ---- what is answered ---- */

static void control(struct connection *c, unsigned which, bool *stop, bool *swallow)
{
	size_t len;
	const char *bytes;

	switch (which) {
	case 0:
	case 1:
		fake_time_pass_ms(input_time_ms(input));
		*stop = true;		/* nothing more for now */
		break;
	case 2:
		c->cut = *stop = true;
		break;
	case 3:
		buffer_append(&c->out, c->last.data, c->last.len);	/* once too often */
		break;
	case 4:
		*swallow = true;
		break;
	case 5:
		c->slice = 1 + input_below(input, 8);
		break;
	case 6:
		c->slice = READ_MAX;
		break;
	case 7:
		c->flood = fake_answer_too_much(&c->out) ? FLOOD_MAX : c->flood;
		*swallow = true;
		break;
	case 8:
		fake_time_sleep_ms(input_time_ms(input));
		break;
	default:
		bytes = input_bytes(input, &len);
		buffer_append(&c->out, bytes, len);
		*swallow = true;
		break;
	}
}

/* Doctor sends commands without their arguments, to learn whether the server knows them. */
static bool lacks_arguments(const struct fake_command *command)
{
	return command->argc == 1 && !fake_redis_is(command, "INFO") && !fake_redis_is(command, "ROLE") && !fake_redis_is(command, "TIME");
}

static void honest(struct connection *c, const struct fake_command *command, unsigned variant)
{
	if (lacks_arguments(command))
		buffer_format(&c->out, "-ERR wrong number of arguments for this command\r\n");
	else if (target->answer == NULL || !target->answer(command, &c->out, variant))
		fake_answer_honest(&c->out, command, variant);
}

static void answer(struct connection *c, const struct fake_command *command, bool *stop)
{
	uint8_t manner = input_byte(input);
	size_t before = c->out.len;
	bool swallow = false;

	if (target->cuts != NULL && target->cuts(command))
		c->cut = *stop = true;
	else if (manner >= 0xf0)
		control(c, manner & 0xf, stop, &swallow);
	else if (manner >= 0xe0)
		fake_answer_error(&c->out);
	else if (manner >= 0xd0)
		fake_answer_anything(&c->out);
	else if (manner >= 0xc0)
		fake_integer(&c->out, input_number(input));
	if (*stop)
		return;
	if (c->out.len == before && !swallow)
		honest(c, command, manner & 0x1f);
	buffer_clear(&c->last);
	buffer_append(&c->last, c->out.data + before, c->out.len - before);
}

/* ---- what was asked ---- */

/* Scripts are loaded in the order of QUEUE_SCRIPTS at each opening, and called by their sums. */
static char sums[QUEUE_SCRIPT_COUNT][ENCODE_SHA1_SIZE];

static void learn_script(struct connection *c, const struct fake_command *command)
{
	unsigned i = c->scripts++ % QUEUE_SCRIPT_COUNT;

	if (sums[i][0] == '\0')
		encode_sha1(command->argv[2], command->len[2], sums[i]);
}

static const char *script_of(const char *sha1)
{
#define X(name, before) #name,
	static const char *const names[] = { QUEUE_SCRIPTS(X) };
#undef X
	for (size_t i = 0; i < nitems(names); i++)
		if (strcmp(sums[i], sha1) == 0)
			return names[i];
	return NULL;
}

/* Of a line "*12\r\n" or "$5\r\n", which is all there or not at all. */
static size_t count_of(struct connection *c, char kind)
{
	const char *line = c->asked.data + c->asked_at;
	const char *end = memchr(line, '\n', c->asked.len - c->asked_at);

	FUZZ_ASSERT(end != NULL && line[0] == kind && end[-1] == '\r');
	c->asked_at += (size_t)(end - line) + 1;
	return strtoull(line + 1, NULL, 10);
}

/* The client's own words are whole and exact, whatever it was told. */
static void take_command(struct connection *c, struct fake_command *command)
{
	*command = (struct fake_command){ .argc = count_of(c, '*') };
	command->words = command->argc;
	FUZZ_ASSERT(command->argc > 0);
	for (size_t i = 0; i < command->argc; i++) {
		size_t len = count_of(c, '$');

		FUZZ_ASSERT(c->asked.len - c->asked_at >= len + 2 && memcmp(c->asked.data + c->asked_at + len, "\r\n", 2) == 0);
		if (i < FAKE_ARGUMENTS_MAX) {
			command->argv[i] = c->asked.data + c->asked_at;
			command->len[i] = len;
			c->asked.data[c->asked_at + len] = '\0';
		}
		c->asked_at += len + 2;
	}
	if (command->argc > FAKE_ARGUMENTS_MAX)
		command->argc = FAKE_ARGUMENTS_MAX;
	if (fake_redis_is(command, "SCRIPT") && command->argc > 2)
		learn_script(c, command);
	if (fake_redis_is(command, "EVALSHA") && command->argc > 1)
		command->script = script_of(command->argv[1]);
}

static void answer_all(struct connection *c)
{
	struct fake_command command;
	bool stop = false;

	while (!stop && !c->cut && c->flood == 0 && c->asked_at < c->asked.len) {
		size_t at = c->asked_at;

		if (input->left == 0) {
			c->cut = true;
			return;
		}
		take_command(c, &command);
		answer(c, &command, &stop);
		if (!stop || c->cut)
			continue;
		/* This one is still to be answered; its ends of line are as they were, since none is looked at twice. */
		c->asked_at = at;
		for (size_t i = 0; i < command.argc; i++)
			c->asked.data[command.argv[i] - c->asked.data + (ptrdiff_t)command.len[i]] = '\r';
	}
}

/* ---- where hiredis would use a socket ---- */

static struct connection *connection_of(const redisContext *c)
{
	for (size_t i = 0; i < nitems(connections); i++)
		if (connections[i].context == c)
			return &connections[i];
	abort();
}

static redisContext *connect_to(void)
{
	uint8_t b = input_byte(input);
	redisContext *c;

	if (b == 0xff)
		return NULL;
	c = redisConnectFd(-1);
	FUZZ_ASSERT(c != NULL);
	for (size_t i = 0; i < nitems(connections); i++)
		if (connections[i].context == NULL) {
			connections[i] = (struct connection){ .context = c, .slice = READ_MAX };
			c->fd = FD_BASE + (int)i;
			break;
		}
	FUZZ_ASSERT(c->fd != -1);
	c->flags &= ~REDIS_BLOCK;
	if (b >= 0xfc || input->left == 0) {
		c->err = REDIS_ERR_IO;
		strlcpy(c->errstr, "Connection refused", sizeof(c->errstr));
	}
	return c;
}

redisContext *__wrap_redisConnectUnixNonBlock(const char *path)
{
	(void)path;
	return connect_to();
}

redisContext *__wrap_redisConnectNonBlock(const char *ip, int port)
{
	(void)ip;
	(void)port;
	return connect_to();
}

void __wrap_redisFree(redisContext *c)
{
	struct connection *connection = connection_of(c);

	buffer_free(&connection->asked);
	buffer_free(&connection->out);
	buffer_free(&connection->last);
	connection->context = NULL;
	c->fd = -1;
	__real_redisFree(c);
}

static int broken(redisContext *c, const char *why)
{
	c->err = REDIS_ERR_EOF;
	strlcpy(c->errstr, why, sizeof(c->errstr));
	return REDIS_ERR;
}

int __wrap_redis_output_write(redisContext *c, struct redis_output *o)
{
	struct connection *connection = connection_of(c);

	if (c->err != 0)
		return -1;
	if (connection->cut && connection->out_at == connection->out.len)
		return broken(c, "Broken pipe");
	if (connection->asked_at == connection->asked.len) {
		buffer_clear(&connection->asked);
		connection->asked_at = 0;
	}
	buffer_append(&connection->asked, c->obuf, sdslen(c->obuf));
	sdsfree(c->obuf);
	c->obuf = sdsempty();
	o->sent = 0;
	return 0;
}

static size_t give(struct connection *c)
{
	static const char nothing[READ_MAX];
	size_t n = c->out.len - c->out_at;

	if (n == 0 && c->flood > 0) {
		n = c->flood < READ_MAX ? c->flood : READ_MAX;
		c->flood -= n;
		redisReaderFeed(c->context->reader, nothing, n);
		return n;
	}
	if (n > c->slice)
		n = c->slice;
	if (n > 0)
		redisReaderFeed(c->context->reader, c->out.data + c->out_at, n);
	c->out_at += n;
	if (c->out_at == c->out.len) {
		buffer_clear(&c->out);
		c->out_at = 0;
	}
	return n;
}

int __wrap_redisBufferRead(redisContext *c)
{
	struct connection *connection = connection_of(c);

	if (c->err != 0)
		return REDIS_ERR;
	if (connection->out_at == connection->out.len && connection->flood == 0)
		answer_all(connection);
	if (give(connection) == 0 && connection->cut)
		return broken(c, "Server closed the connection");
	return REDIS_OK;
}

/* ---- waiting ---- */

static bool has_news(const struct connection *c)
{
	return c->context != NULL && (c->cut || c->flood > 0 || c->out_at < c->out.len || c->asked_at < c->asked.len);
}

static int64_t ms_of(const struct timespec *t)
{
	return t == NULL ? 1000 : (int64_t)t->tv_sec * 1000 + t->tv_nsec / 1000000;
}

/* Time passes only where nothing is to be heard. */
int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	int ready = 0;

	(void)mask;
	FUZZ_ASSERT(timeout == NULL || (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 && timeout->tv_nsec < 1000000000));
	if (target->poll != NULL)
		target->poll();
	for (nfds_t i = 0; i < n; i++) {
		struct pollfd *p = &fds[i];

		p->revents = 0;
		if (p->fd >= FD_BASE && has_news(&connections[p->fd - FD_BASE]))
			p->revents = POLLIN;
		else if (p->fd < FD_BASE)
			poll(p, 1, 0);
		ready += p->revents != 0;
	}
	if (ready == 0)
		fake_time_pass_ms(ms_of(timeout));
	return ready;
}
