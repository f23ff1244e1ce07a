/* links: tests/fuzz/input.c */
/*
 * What people write: options, numbers, durations, sizes, addresses. What is accepted is in its range and is
 * written again as it was read; what is shown has no secret and nothing that commands a terminal.
 */
#include <getopt.h>
#include <locale.h>
#include <string.h>

#include "tests/fuzz/input.h"

#include "admin/cli/options.h"
#include "admin/cli/visible.h"
#include "common/base/identifier.h"
#include "common/base/alloc.h"
#include "common/base/clock.h"
#include "common/base/nitems.h"
#include "common/redis/redis.h"
#include "common/base/units.h"
#include "common/handler/reply.h"

#define WORDS_MAX 32
#define DELAY_MASK ((INT64_C(1) << 50) - 1)	/* more than any duration of the configuration */
#define ATTEMPT_MASK 0xfffff
#define YEAR_MS (INT64_C(365) * 24 * 3600 * 1000)

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	setlocale(LC_CTYPE, "C.UTF-8");
	stderr = fopen("/dev/null", "we");	/* what is wrong with a line is said there */
	FUZZ_ASSERT(stderr != NULL);
	return 0;
}

/* ---- the command line ---- */

static void check_field(const struct options *o, const struct option_spec *s)
{
	int64_t n;

	memcpy(&n, (const char *)o + s->offset, sizeof(n));
	if (s->bit != 0 && (o->given & s->bit) == 0)
		FUZZ_ASSERT(n == -1);
	else if (s->kind == OPTION_IS_DURATION)
		FUZZ_ASSERT(n >= 0);
	else
		FUZZ_ASSERT((s->bit == 0 && n == 0) || (n >= s->min && n <= s->max));
}

static bool is_one_of(const char *word, char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (word >= words[i] && word <= words[i] + strlen(words[i]))
			return true;
	return false;
}

static void command_line(struct input *in)
{
	char *words[WORDS_MAX + 2] = { alloc_string("quredis") }, *given[WORDS_MAX + 2];
	struct options o;
	int argc = 1;

	while (in->left > 0 && argc <= WORDS_MAX)
		words[argc++] = input_text(in);
	memcpy(given, words, sizeof(words));
	optind = 0;		/* getopt begins anew */
	if (options_parse(&o, argc, words) == 0) {
		for (size_t i = 0; i < option_specs_count; i++)
			if (option_specs[i].kind == OPTION_IS_NUMBER || option_specs[i].kind == OPTION_IS_DURATION)
				check_field(&o, &option_specs[i]);
		FUZZ_ASSERT(o.noperands < (size_t)argc && o.operands[o.noperands] == NULL);
		for (size_t i = 0; i < o.noperands; i++)
			FUZZ_ASSERT(is_one_of(o.operands[i], given, (size_t)argc));
		FUZZ_ASSERT(o.id == NULL || is_one_of(o.id, given, (size_t)argc));
	}
	options_free(&o);
	for (int i = 0; i < argc; i++)
		free(given[i]);
}

/* ---- numbers ---- */

static void duration(const char *text)
{
	char shown[UNITS_SIZE];
	int64_t ms, again;

	if (units_parse_duration(text, &ms) == -1)
		return;
	FUZZ_ASSERT(ms >= 0 && text[0] >= '0' && text[0] <= '9');
	FUZZ_ASSERT(strlen(units_format_duration(ms, shown)) < UNITS_SIZE && units_parse_duration(shown, &again) == 0 && again == ms);
}

static void size(const char *text)
{
	char shown[UNITS_SIZE];
	int64_t bytes, again;

	if (units_parse_size(text, &bytes) == -1)
		return;
	FUZZ_ASSERT(bytes >= 0 && text[0] >= '0' && text[0] <= '9');
	FUZZ_ASSERT(strlen(units_format_size(bytes, shown)) < UNITS_SIZE && units_parse_size(shown, &again) == 0 && again == bytes);
}

static void numbers(struct input *in)
{
	int64_t base = input_number(in) & DELAY_MASK, cap = input_number(in) & DELAY_MASK, delay;
	unsigned attempt = (unsigned)input_number(in) & ATTEMPT_MASK;
	char *text = input_text(in);

	duration(text);
	size(text);
	free(text);
	delay = clock_backoff_ms(base, 1 + input_byte(in) / 16.0, cap, input_byte(in) / 255.0, attempt, (uint32_t)input_number(in));
	FUZZ_ASSERT(delay >= 0 && delay <= cap);
}

/* ---- addresses ---- */

static void same_string(const char *a, const char *b)
{
	FUZZ_ASSERT(a == NULL || b == NULL ? a == b : strcmp(a, b) == 0);
}

static void same_target(const struct redis_target *a, const struct redis_target *b)
{
	same_string(a->unix_path, b->unix_path);
	FUZZ_ASSERT(a->db == b->db && a->naddresses == b->naddresses);
	for (size_t i = 0; i < a->naddresses; i++) {
		same_string(a->addresses[i].host, b->addresses[i].host);
		FUZZ_ASSERT(a->addresses[i].port == b->addresses[i].port);
	}
}

static void address(struct input *in)
{
	char *url = input_text(in), *user = input_text(in), *password = input_text(in), *sentinel = input_text(in), error[64], why[256];
	const char *const sentinels[] = { sentinel, NULL };
	struct redis_options o = { .url = url, .user = user[0] == '\0' ? NULL : user, .password = password[0] == '\0' ? NULL : password,
		.sentinels = sentinel[0] == '\0' ? NULL : sentinels, .master = "mail" };
	struct redis_target t, again;

	if (redis_target_parse(&t, &o, error, sizeof(error)) == 0) {
		FUZZ_ASSERT((t.unix_path == NULL) == (t.naddresses > 0) && t.db >= 0 && (t.master == NULL) == (o.sentinels == NULL));
		for (size_t i = 0; i < t.naddresses; i++)
			FUZZ_ASSERT(t.addresses[i].port > 0 && t.addresses[i].port < 65536);
		FUZZ_ASSERT(strchr(t.shown, '@') == NULL || t.unix_path != NULL);
		o.url = t.shown;
		if (t.master == NULL && redis_target_parse(&again, &o, why, sizeof(why)) == 0) {
			same_target(&t, &again);
			redis_target_free(&again);
		}
		redis_target_free(&t);
	}
	FUZZ_ASSERT(t.login.password == NULL && t.addresses == NULL);
	free(sentinel);
	free(url);
	free(user);
	free(password);
}

/* ---- what is shown ---- */

static void shown(struct input *in)
{
	size_t columns = input_byte(in);
	char *text = visible((const char *)in->at, in->left, columns);

	FUZZ_ASSERT(visible_columns(text) <= columns);
	for (const char *p = text; *p != '\0'; p++)
		FUZZ_ASSERT((unsigned char)*p >= ' ' && *p != 0x7f);
	free(text);
}

/* ---- replies of handlers ---- */

static void reply(struct input *in)
{
	static const struct conf_queue *targets[] = { NULL };
	unsigned kind = input_byte(in);
	const struct conf_queue conf = { .mode = kind % 2 == 0 ? CONF_MODE_PERSISTENT : CONF_MODE_EXEC,
		.emit.targets = kind / 2 % 2 == 0 ? NULL : targets };
	const char *line = (const char *)in->at, *end = line + in->left;
	char text[HANDLER_REASON_SHOWN + 16];
	struct handler_reply r;

	if (handler_reply_parse(&r, &conf, line, in->left) != HANDLER_LINE_REPLY)
		return;
	FUZZ_ASSERT(conf.mode == CONF_MODE_EXEC ? r.token == NULL : r.token > line && r.token + HANDLER_TOKEN_LEN <= end);
	handler_reply_describe(&r, text, sizeof(text));
	FUZZ_ASSERT(strncmp(text, handler_verb_names[r.verb], strlen(handler_verb_names[r.verb])) == 0);
	FUZZ_ASSERT(r.verb < VERBS && (conf.mode == CONF_MODE_PERSISTENT || r.verb != VERB_OK) && r.delay_ms >= -1 && r.delay_ms <= YEAR_MS);
	FUZZ_ASSERT(r.delay_ms == -1 || r.verb == VERB_RETRY || r.verb == VERB_HOLD || r.verb == VERB_EMIT);
	FUZZ_ASSERT(r.verb != VERB_EMIT || (conf.emit.targets != NULL && r.length >= -1 && r.length <= CONF_EMIT_BYTES_MAX && r.emitted == NULL));
	FUZZ_ASSERT(r.verb != VERB_EMIT || r.length == -1 || (r.queue_len > 0 && r.queue > line && r.queue + r.queue_len < end));
	FUZZ_ASSERT(r.reason >= line && r.reason + r.reason_len <= end);
	FUZZ_ASSERT(r.reason_len == 0 || (r.verb != VERB_OK && r.verb != VERB_BEAT));
	FUZZ_ASSERT(r.verb != VERB_PROGRESS || (r.percent >= 0 && r.percent <= 100));
	FUZZ_ASSERT(r.class_len <= HANDLER_CLASS_MAX && (r.class_len == 0 || (r.class > line && r.class + r.class_len <= end)));
	FUZZ_ASSERT(r.class_len == 0 || r.verb == VERB_RETRY || r.verb == VERB_FAIL || r.verb == VERB_REJECT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static void (*const kinds[])(struct input *in) = { command_line, numbers, address, shown, reply };
	uint8_t *copy = malloc(len);
	struct input in = { copy, len };

	if (len > 0)
		memcpy(copy, data, len);
	kinds[input_below(&in, nitems(kinds))](&in);
	free(copy);
	return 0;
}
