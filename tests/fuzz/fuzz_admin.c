/* links: tests/fuzz/commands.c tests/fuzz/input.c tests/fuzz/fake_time.c tests/fuzz/fake_redis.c tests/fuzz/fake_answers.c tests/fuzz/fake_values.c tests/fuzz/fake_registry.c tests/fuzz/script_move.c tests/fuzz/conf_text.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf -Wl,--wrap=ppoll -Wl,--wrap=isatty -Wl,--wrap=conf_load -Wl,--wrap=conf_free */
/* ldflags: -Wl,--wrap=redisConnectUnixNonBlock -Wl,--wrap=redisConnectNonBlock -Wl,--wrap=redisFree -Wl,--wrap=redisBufferRead -Wl,--wrap=redis_output_write */
/*
 * Commands of quredis whose server is the input. Whatever that answers, a command ends with a status of
 * sysexits(3), says nothing that commands a terminal, and with --json says JSON.
 */
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "tests/fuzz/input.h"

#include "admin/dead_letters/records.h"
#include "common/base/alloc.h"
#include "common/base/nitems.h"
#include "tests/fuzz/commands.h"
#include "tests/fuzz/fake_answers.h"
#include "tests/fuzz/fake_redis.h"
#include "tests/fuzz/fake_registry.h"
#include "tests/fuzz/fake_time.h"
#include "tests/fuzz/script_move.h"

#define WORDS_MAX 8
#define STATUS_WORST 3		/* below those of sysexits(3): admin/cli/confirm.c, admin/doctor/command.c */
#define SAID_MAX (16 << 20)

/* "left" is known from the registry only. */
static const char *const lines[][WORDS_MAX] = {
	{ "ls" }, { "push", "mail", "hello" }, { "push", "left", "-d", "5s", "-i", "a", "x" }, { "push", "mail" },
	{ "peek", "mail", "ingress" }, { "peek", "left", "transit" }, { "peek", "mail", "escape", "-n", "300" }, { "peek", "left", "delayed" },
	{ "purge", "mail", "ingress" }, { "purge", "left", "transit" }, { "purge", "mail", "transit", "--force" }, { "purge", "mail", "escape", "--dry-run" },
	{ "purge", "mail", "delayed" }, { "retry", "mail", "escape" }, { "retry", "left", "transit" }, { "retry", "mail", "transit", "--force" },
	{ "retry", "mail", "delayed" }, { "destroy", "mail", "--yes" }, { "destroy", "left", "--yes", "--force" }, { "pause", "mail" },
	{ "pause", "mail", "--dry-run" }, { "resume", "left" }, { "resume", "mail", "--dry-run" }, { "dlq", "ls", "mail" },
	{ "dlq", "ls", "left", "-C", "HandlerExit", "-n", "3" }, { "dlq", "show", "mail", "1700000000000-0" }, { "dlq", "show", "mail", "job-1" },
	{ "dlq", "retry", "mail", "1700000000000-0" }, { "dlq", "retry", "left", "--all" }, { "dlq", "rm", "mail", "job-1" },
	{ "dlq", "rm", "mail", "1700000000000-0", "--dry-run" }, { "dlq", "rm", "left", "--all" }, { "push", "mial", "x" },
	{ "doctor" }, { "doctor", "-v" }, { "doctor", "--fix" }, { "doctor", "--fix", "--dry-run" },
	{ "retry", "mail", "job-1" }, { "retry", "left", "delayed", "job-1", "--search", "300" },
	{ "rm", "mail", "ingress", "job-1" }, { "rm", "left", "delayed", "job-1", "job-2" },
};

enum { FLAG_JSON = 0x40, FLAG_TERMINAL = 0x80 };

static const char conf_file[] =
    "redis = { url = \"unix:///fake\"; };\n"
    "supervisor = { node = \"n\"; control_socket = \"/nonexistent/socket\"; };\n"
    "queues = ( { name = \"mail\"; handler = [\"/bin/true\"]; }, { name = \"other\"; handler = [\"/bin/true\"]; } );";

static struct input *input;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	commands_begin(conf_file);
	return 0;
}

/* ---- the server ---- */

static void record(struct buffer *out)
{
	static const char *const ids[] = { "1700000000000-0", "0-0", "18446744073709551615-18446744073709551615", "1-99999999999999999999", "x", "-", "" };
	size_t len, n = input_below(input, 6);
	const char *bytes;

	fake_array(out, 2);
	fake_text(out, ids[input_below(input, nitems(ids))]);
	fake_array(out, 2 * n + 4);
	fake_text(out, "id");
	fake_text(out, "job-1");
	fake_text(out, "sha1");
	fake_text(out, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
	while (n-- > 0) {
		fake_text(out, record_fields[input_below(input, RECORD_FIELDS)]);
		bytes = input_bytes(input, &len);
		fake_string(out, bytes, len);
	}
}

static void records(struct buffer *out, unsigned variant)
{
	unsigned n = variant % 8;

	fake_array(out, n);
	while (n-- > 0)
		record(out);
}

static void log_page(struct buffer *out, unsigned variant)
{
	static const char *const lineage[] = { "5", "order-7", "3", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" };
	unsigned n = variant % 8, more = variant % 2 == 0 ? 0 : 4;
	char id[RECORD_ID_SIZE];

	fake_array(out, (2 + more) * n);
	for (unsigned i = 0; i < n; i++) {
		snprintf(id, sizeof(id), "1700000000000-%u", i);
		fake_text(out, id);
		fake_text(out, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
		for (unsigned k = 0; k < more; k++)
			fake_text(out, lineage[k]);
	}
}

static void delayed(struct buffer *out, unsigned variant)
{
	static const char *const scores[] = { "1700000000000", "1.7e12", "inf", "-inf", "nan", "1e300", "-1e300", "", "9223372036854775807", "x" };
	unsigned n = variant % 8;

	fake_array(out, 2 * n);
	while (n-- > 0) {
		fake_message(out);
		fake_text(out, scores[input_below(input, nitems(scores))]);
	}
}

static bool answer(const struct fake_command *c, struct buffer *out, unsigned variant)
{
	struct script_move m;

	/* What it puts back lies behind a new line of ours, or, where others fetch, too, behind none. doctor only rehearses. */
	if (script_move_read(c, NULL, &m) && m.changes && strstr(m.list, ":scratch:") == NULL)
		FUZZ_ASSERT(m.noted == (m.line_len == 0));
	if (fake_redis_is(c, "XRANGE") || fake_redis_is(c, "XREVRANGE") || (c->script != NULL && strcmp(c->script, "look_records") == 0))
		records(out, variant);
	else if (c->script != NULL && strcmp(c->script, "log_page") == 0)
		log_page(out, variant);
	else if (fake_redis_is(c, "ZRANGE") && c->argc == 5)
		delayed(out, variant);
	else
		return fake_registry_answer(input, c, out, variant);
	return true;
}

/* ---- what it says ---- */

/* Ours, and only to a terminal: headings and colours, a progress line that is drawn over. */
static size_t our_sequence(const char *at)
{
	static const char *const ours[] = { "\033[1m", "\033[0m", "\033[K", "\r", "\033[32m", "\033[33m", "\033[1;31m", "\033[2m" };

	for (size_t i = 0; commands_terminal && i < nitems(ours); i++)
		if (strncmp(at, ours[i], strlen(ours[i])) == 0)
			return strlen(ours[i]);
	return 0;
}

static void check_harmless(const char *text, size_t len, bool json)
{
	bool for_programs = json && !commands_terminal;

	FUZZ_ASSERT(len < SAID_MAX && strlen(text) == len);
	for (const char *p = text; *p != '\0';) {
		size_t skip = our_sequence(p);

		FUZZ_ASSERT(skip > 0 || *p == '\n' || ((unsigned char)*p >= ' ' && (*p != 0x7f || json)));
		FUZZ_ASSERT(for_programs || (unsigned char)p[0] != 0xc2 || (unsigned char)p[1] >= 0xa0);	/* U+0080 to U+009F */
		p += skip > 0 ? skip : 1;
	}
}

/* One value, or a value a line. */
static void check_json(const char *at, size_t len)
{
	const char *end = at + len;
	json_error_t error;

	while (at < end && strspn(at, " \n") < (size_t)(end - at)) {
		json_t *json = json_loadb(at, (size_t)(end - at), JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &error);

		FUZZ_ASSERT(json != NULL && error.position > 0);
		at += error.position;
		json_decref(json);
	}
}

/* ---- one run ---- */

static int words_of(size_t line, uint8_t flags, char *argv[WORDS_MAX + 3])
{
	int argc = 0;

	argv[argc++] = alloc_string("quredis");
	for (size_t i = 0; i < WORDS_MAX && lines[line][i] != NULL; i++)
		argv[argc++] = alloc_string(lines[line][i]);
	if ((flags & FLAG_JSON) != 0)
		argv[argc++] = alloc_string("--json");
	argv[argc] = NULL;
	return argc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct fake_redis_target target = { .answer = answer };
	struct input in = { data, size };
	uint8_t flags = input_byte(&in);
	bool json = (flags & FLAG_JSON) != 0;
	size_t line = (flags & 0x3f) % nitems(lines);
	char *argv[WORDS_MAX + 3], *given[WORDS_MAX + 3];
	int argc = words_of(line, flags, argv);
	struct commands_said said;

	memcpy(given, argv, sizeof(given));
	input = &in;
	commands_terminal = (flags & FLAG_TERMINAL) != 0;
	fake_time_begin();
	fake_redis_begin(&in, &target);
	said = commands_run(argc, argv, "y\nleft\n");
	FUZZ_ASSERT((said.status >= 0 && said.status <= STATUS_WORST) || (said.status >= EX__BASE && said.status <= EX__MAX));
	check_harmless(said.out, said.out_len, json);
	check_harmless(said.err, said.err_len, false);
	if (json && said.status == 0)	/* else it is cut short, so that nobody takes it for whole */
		check_json(said.out, said.out_len);
	free(said.out);
	free(said.err);
	for (int i = 0; i < argc; i++)
		free(given[i]);
	fake_redis_end();
	return 0;
}
