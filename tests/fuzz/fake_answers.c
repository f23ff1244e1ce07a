/* What a server answers: honestly, as one that is refused, or is no server of ours. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/fuzz/fake_answers.h"

#include "common/base/nitems.h"
#include "common/queue/moves.h"
#include "tests/fuzz/fake_time.h"
#include "tests/unit/sealed.h"

static struct input *input;
static size_t secrets_sent;		/* the last time that secrets were asked for */

/* What one input taught must not help the next one. */
static void forget_secrets(void)
{
	*(struct seal_secrets *)(uintptr_t)seal_known() = (struct seal_secrets){0};
	secrets_sent = 0;
}

void fake_answers_begin(struct input *in)
{
	input = in;
	fake_values_begin(in);
	forget_secrets();
}

/* ---- honest answers ---- */

static void status(struct buffer *out, const char *text)
{
	buffer_format(out, "+%s\r\n", text);
}

static void some_messages(struct buffer *out, unsigned n)
{
	fake_array(out, n);
	while (n-- > 0)
		fake_message(out);
}

static void notes(struct buffer *out, size_t n, unsigned variant)
{
	fake_array(out, n);
	while (n-- > 0)
		if (variant % 2 == 0)
			fake_nil(out);
		else
			fake_note(out);
}

static void info(struct buffer *out, unsigned variant)
{
	static const char *const texts[] = {
		"# Server\r\nredis_version:7.0.15\r\nrun_id:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nmaxmemory_policy:noeviction\r\n",
		"redis_version:4.0.1\r\nmaxmemory_policy:noeviction\r\n", "redis_version:7.2.4\r\nrun_id:b\r\nmaxmemory_policy:allkeys-lru\r\n",
		"", "run_id:", "redis_version:99999999999999999999999999999999999999999\r\nrun_id:b\nmaxmemory_policy:volatile-ttl",
	};
	size_t len;
	const char *bytes;

	if (variant < nitems(texts)) {
		fake_text(out, texts[variant]);
		return;
	}
	bytes = input_bytes(input, &len);
	fake_string(out, bytes, len);
}

static void server_time(struct buffer *out, unsigned variant)
{
	int64_t ms = INT64_C(1700000000000) + fake_time_passed_ms();
	char text[32];

	if (variant == 1)
		ms += 3600000;
	else if (variant == 2)
		ms = input_number(input);
	fake_array(out, 2);
	snprintf(text, sizeof(text), "%" PRId64, variant == 2 ? ms : ms / 1000);
	fake_text(out, text);
	snprintf(text, sizeof(text), "%" PRId64, variant == 2 ? ms : ms % 1000 * 1000);
	fake_text(out, text);
}

static void role(struct buffer *out, unsigned variant)
{
	fake_array(out, 3);
	fake_text(out, variant == 1 ? "slave" : "master");
	fake_integer(out, 0);
	fake_array(out, 0);
}

/* One of the types and values that Redis knows. */
static void any_type(struct buffer *out, unsigned variant)
{
	static const char *const types[] = { "none", "list", "hash", "zset", "stream", "string", "set", "a type of which nobody ever heard" };

	status(out, types[variant % nitems(types)]);
}

static void weight(struct buffer *out, unsigned variant)
{
	fake_array(out, 3);
	fake_integer(out, variant % 8);
	fake_integer(out, 1 + variant % 100);
	fake_integer(out, variant == 2 ? INT64_C(1) << 40 : 0);
}

/* Entries that are whole, and one of which only the ends are shown. */
static void page(struct buffer *out, unsigned variant)
{
	unsigned n = variant % 5;
	char ends[QUEUE_BY_VALUE_MAX] = "", size[32];
	size_t len;
	const char *bytes;

	fake_array(out, 5 * n);
	for (unsigned i = 0; i < n; i++) {
		bytes = input_bytes(input, &len);
		if (i == 2)
			memcpy(ends, bytes, len < sizeof(ends) ? len : sizeof(ends));
		snprintf(size, sizeof(size), "%zu", i == 2 ? (size_t)100000 : len);
		fake_text(out, size);
		fake_string(out, i == 2 ? ends : bytes, i == 2 ? sizeof(ends) : len);
		fake_string(out, ends, i == 2 ? QUEUE_ENTRY_ENDS : 0);
		fake_text(out, "");
		fake_text(out, "");
	}
}

/* Of what is too large: its length, what it begins with if that may be a wrapper, whether it has a record. */
static void too_large(struct buffer *out, unsigned variant)
{
	fake_array(out, 3);
	fake_integer(out, variant % 3 * 10000000);
	if (variant % 2 == 0)
		fake_text(out, "");
	else
		fake_message(out);
	fake_integer(out, 1 + variant / 2 % 2);
}

static void digests(struct buffer *out, unsigned variant)
{
	int n = 1 + (int)(variant / 2 % QUEUE_DIGESTS);

	fake_array(out, (size_t)n);
	for (int i = 0; i < n; i++)
		fake_text(out, variant == 1 ? "" : "da39a3ee5e6b4b0d3255bfef95601890afd80709");
}

/* ---- secrets ---- */

static size_t count_secrets(const char *list)
{
	size_t n = 0;

	while (*list != '\0') {
		size_t len = strspn(list, "0123456789abcdef");

		FUZZ_ASSERT(len == (size_t)2 * SEAL_SECRET_BYTES && (list[len] == '\0' || (list[len] == ' ' && list[len + 1] != '\0')));
		list += len + (list[len] == ' ');
		n++;
	}
	return n;
}

/* A client names well-formed secrets, and forgets none that it knew. A long list of traces leaves no room for the words behind it. */
static void check_question(const struct fake_command *c)
{
	size_t nkeys = (size_t)atoi(c->argv[2]), traces = nkeys - 4, n;

	FUZZ_ASSERT(nkeys >= 4 && c->words == 13 + 2 * traces);
	if (4 + nkeys >= c->argc)
		return;
	FUZZ_ASSERT(count_secrets(c->argv[3 + nkeys]) <= 1);
	n = count_secrets(c->argv[4 + nkeys]);
	FUZZ_ASSERT(n == seal_known()->n && n >= secrets_sent && n <= SEAL_SECRETS_MAX);
	secrets_sent = n;
}

static void many_secrets(struct buffer *out, size_t n)
{
	struct buffer list = {0};

	for (size_t i = 0; i < n; i++)
		buffer_format(&list, "%s%064zx", i == 0 ? "" : " ", i + 1);
	fake_string(out, list.data, list.len);
	buffer_free(&list);
}

/* As the script answers; from 0x1a on, with what somebody may have written there. Other types are among all answers of a kind that is not expected. */
static void secrets(struct buffer *out, unsigned variant)
{
	const char *bytes;
	size_t len;

	switch (variant) {
	case 1:
		fake_text(out, SEALED_OTHER " " SEALED_SECRET);
		break;
	case 0x1a:
		fake_text(out, "");		/* there is none yet */
		break;
	case 0x1b:
		many_secrets(out, SEAL_SECRETS_MAX + input_below(input, 200));
		break;
	case 0x1c:
		fake_text(out, SEALED_SECRET "0 0" SEALED_SECRET " " SEALED_SECRET SEALED_OTHER);	/* words that are too long */
		break;
	case 0x1d:
		fake_text(out, " 00  " SEALED_OTHER "  zz " SEALED_SECRET " ");
		break;
	case 0x1e:
		bytes = input_bytes(input, &len);
		fake_string(out, bytes, len);
		break;
	case 0x1f:
		fake_string(out, SEALED_OTHER "\0" SEALED_SECRET, 2 * sizeof(SEALED_OTHER) - 1);
		break;
	default:
		fake_text(out, SEALED_SECRET);
	}
}

static void lates(struct buffer *out, unsigned variant)
{
	fake_array(out, variant % 4);
	for (unsigned i = 0; i < variant % 4; i++)
		fake_integer(out, i == 2 ? QUEUE_DUE_LOST : (int64_t)variant);
}

static void scripted(struct buffer *out, const struct fake_command *c, unsigned variant)
{
	if (c->script != NULL && strcmp(c->script, "secret") == 0) {
		check_question(c);
		secrets(out, variant);
	} else if (variant == 0x1f)
		fake_integer(out, -1);	/* of scripts that say more than yes and no */
	else if (c->script != NULL && strcmp(c->script, "fetch") == 0 && variant % 2 == 0)
		fake_message(out);
	else if (c->script != NULL && strcmp(c->script, "fetch") == 0)
		fake_nil(out);
	else if (c->script != NULL && strcmp(c->script, "weigh") == 0)
		weight(out, variant);
	else if (c->script != NULL && strcmp(c->script, "look") == 0)
		page(out, variant);
	else if (c->script != NULL && strcmp(c->script, "too_large_first") == 0)
		too_large(out, variant);
	else if (c->script != NULL && strcmp(c->script, "digest") == 0)
		digests(out, variant);
	else if (c->script != NULL && strcmp(c->script, "due") == 0)
		lates(out, variant);
	else if (c->script != NULL && strcmp(c->script, "log_page") == 0)
		fake_array(out, 0);
	else if (c->script != NULL && (strcmp(c->script, "fence") == 0 || strcmp(c->script, "renew") == 0))
		fake_integer(out, variant % 4);
	else
		fake_integer(out, variant == 1 ? 0 : variant == 2 ? 2 : 1);
}

static bool is_any(const struct fake_command *c, const char *const *names)
{
	for (; *names != NULL; names++)
		if (fake_redis_is(c, *names))
			return true;
	return false;
}

void fake_answer_honest(struct buffer *out, const struct fake_command *c, unsigned variant)
{
	static const char *const fetches[] = { "BRPOPLPUSH", "RPOPLPUSH", "BLMOVE", "LMOVE", NULL };
	static const char *const lists[] = { "LRANGE", "ZRANGE", "SMEMBERS", NULL };
	static const char *const empty[] = { "HGETALL", "XRANGE", "XREVRANGE", NULL };
	static const char *const said_ok[] = { "SET", "AUTH", "SELECT", NULL };

	if (is_any(c, fetches)) {
		if (variant % 2 == 0)
			fake_message(out);
		else
			fake_nil(out);
	} else if (fake_redis_is(c, "CLIENT") && c->argc > 1 && strcmp(c->argv[1], "ID") == 0) {
		fake_integer(out, 7);
	} else if (fake_redis_is(c, "CLIENT") && c->argc > 1 && strcmp(c->argv[1], "SETNAME") == 0) {
		status(out, "OK");
	} else if (fake_redis_is(c, "ROLE")) {
		role(out, variant);
	} else if (fake_redis_is(c, "SCRIPT")) {
		fake_text(out, "0000000000000000000000000000000000000000");
	} else if (fake_redis_is(c, "EVALSHA")) {
		scripted(out, c, variant);
	} else if (is_any(c, lists)) {
		some_messages(out, variant % 8);
	} else if (fake_redis_is(c, "HMGET")) {
		notes(out, c->words - 2, variant);
	} else if (is_any(c, empty)) {
		fake_array(out, 0);
	} else if (fake_redis_is(c, "INFO")) {
		info(out, variant);
	} else if (fake_redis_is(c, "TIME")) {
		server_time(out, variant);
	} else if (fake_redis_is(c, "TYPE")) {
		any_type(out, variant);
	} else if (fake_redis_is(c, "GET") || fake_redis_is(c, "HGET")) {
		fake_nil(out);
	} else if (is_any(c, said_ok)) {
		status(out, "OK");
	} else {
		fake_integer(out, variant == 0 ? 1 : variant - 1);
	}
}

/* ---- the others ---- */

/* What of the input can stand in a line. */
static void any_line(struct buffer *out)
{
	size_t len;
	const char *bytes = input_bytes(input, &len);

	for (size_t i = 0; i < len; i++)
		if (bytes[i] != '\r' && bytes[i] != '\n')
			buffer_append(out, bytes + i, 1);
}

static void nested(struct buffer *out, int depth)
{
	unsigned kind = input_below(input, 8);
	size_t len;
	const char *bytes;

	switch (kind) {
	case 0:
	case 1:
		fake_integer(out, input_number(input));
		break;
	case 2:
		fake_nil(out);
		break;
	case 3:
		buffer_append(out, "+", 1);
		any_line(out);
		buffer_append(out, "\r\n", 2);
		break;
	case 4:
	case 5:
		bytes = input_bytes(input, &len);
		fake_string(out, bytes, len);
		break;
	default:
		len = depth >= 9 ? 0 : input_below(input, 6);
		fake_array(out, len);
		while (len-- > 0)
			nested(out, depth + 1);
		break;
	}
}

void fake_answer_anything(struct buffer *out)
{
	nested(out, 0);
}

void fake_answer_error(struct buffer *out)
{
	static const char *const errors[] = {
		"ERR unknown command 'BRPOPLPUSH'", "OOM command not allowed when used memory > 'maxmemory'.", "READONLY You can't write",
		"UNBLOCKED force unblock", "LOADING Redis is loading", "MISCONF Redis is", "BUSY Redis is busy",
		"SCHEMA the keys have layout 9", "NOREPLICAS Not enough",
		"MASTERDOWN Link", "CLUSTERDOWN", "TRYAGAIN", "NOSCRIPT No matching script", "NOAUTH Authentication required.",
		"WRONGPASS", "NOPERM this user", "WRONGTYPE Operation against", "The user executing the script can't run this command",
		"ERR Error running script (call to f_x): @user_script:1: WRONGTYPE Operation", "ACL failure in script: x", "", "ERR",
	};
	unsigned which = input_below(input, nitems(errors) + 1);

	buffer_append(out, "-", 1);
	if (which < nitems(errors))
		buffer_append(out, errors[which], strlen(errors[which]));
	else
		any_line(out);
	buffer_append(out, "\r\n", 2);
}

bool fake_answer_too_much(struct buffer *out)
{
	static const char *const heads[] = {
		"*2147483647\r\n", "*1000000\r\n", "*1048577\r\n", "*9223372036854775807\r\n", "*-2\r\n", "$9223372036854775807\r\n",
		"$536870912\r\n", "$-2\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
		"*1000000\r\n*1000000\r\n*1000000\r\n*1000000\r\n*1000000\r\n*1000000\r\n", "$18446744073709551616\r\n", ":9223372036854775808\r\n",
		"%1\r\n+a\r\n+b\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(3492890328409238509324850943850943825024385\r\n", "~1\r\n:1\r\n",
		">2\r\n+message\r\n+x\r\n", "=5\r\ntxt:x\r\n", "$0\r\nX\n", "\r\n", "\n\n", ":\r\n", "$\r\n\r\n", "*\r\n",
	};
	const char *head = heads[input_below(input, nitems(heads))];

	buffer_append(out, head, strlen(head));
	return input_byte(input) & 1;
}
