/* links: tests/fuzz/commands.c tests/fuzz/input.c tests/fuzz/fake_time.c tests/fuzz/fake_redis.c tests/fuzz/fake_answers.c tests/fuzz/fake_values.c */
/* links: tests/fuzz/fake_registry.c tests/fuzz/script_move.c tests/fuzz/conf_text.c tests/unit/file_text.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random */
/* ldflags: -Wl,--wrap=arc4random_buf -Wl,--wrap=ppoll -Wl,--wrap=isatty -Wl,--wrap=conf_load -Wl,--wrap=conf_free -Wl,--wrap=redis_output_write */
/* ldflags: -Wl,--wrap=redisConnectUnixNonBlock -Wl,--wrap=redisConnectNonBlock -Wl,--wrap=redisFree -Wl,--wrap=redisBufferRead */
/*
 * What commands say to a server that answers so. Each file golden/NAME.expected has cases:
 *
 *	$ normal ls --json		the server, of golden/servers, and the arguments of quredis
 *	|{"queues": ...			what it writes on standard output
 *	!quredis: ...			on standard error
 *	=0				its exit status
 *
 * The first line of a server may end with "Doctor reports: CHECK, ...": then each of these has a row in every report.
 *
 * A new case is the first line alone: QUREDIS_GOLDEN=write build/release/unit/test_golden writes the others, to be read
 * before they are committed.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <jansson.h>

#include "common/base/alloc.h"
#include "tests/fuzz/commands.h"
#include "tests/fuzz/fake_redis.h"
#include "tests/fuzz/fake_registry.h"
#include "tests/fuzz/fake_time.h"
#include "tests/fuzz/fake_values.h"
#include "tests/unit/file_text.h"
#include "tests/unit/unit.h"

#define FOLDER "tests/unit/admin/golden/"
#define WORDS_MAX 16
#define ROWS_MAX 64

static const char conf_file[] =
    "redis = { url = \"unix:///fake\"; };\n"
    "supervisor = { node = \"n\"; control_socket = \"/nonexistent/socket\"; };\n"
    "queues = ( { name = \"mail\"; handler = [\"/bin/true\"]; }, { name = \"other\"; handler = [\"/bin/true\"]; } );\n"
    "schedules = ( { name = \"nightly\"; queue = \"mail\"; cron = \"30 2 * * *\"; timezone = \"Europe/Berlin\"; message = \"go\"; overlap = false; },\n"
    "{ name = \"often\"; queue = \"other\"; every = \"5m\"; message = \"go\"; } );";

/* ---- the server: lines COMMAND = ANSWER, of which the first holds whose words the command begins with ---- */

static struct {
	char *words;
	json_t *answer;		/* as JSON, with {"status": TEXT}, {"error": TEXT} and {"times": N, "each": ANSWER} */
} rows[ROWS_MAX];
static size_t nrows;
static char promised[256];	/* the checks that the first line of its file names: what doctor must report of it */
static struct input input;

static void read_server(const char *name)
{
	char *path = alloc_format(FOLDER "servers/%s", name), *text = alloc_string(file_text(path)), *rest = text;

	while (nrows > 0) {
		free(rows[--nrows].words);
		json_decref(rows[nrows].answer);
	}
	promised[0] = '\0';
	sscanf(text, "%*[^\n:]: %255[^.\n]", promised);
	if (strlen(promised) == sizeof(promised) - 1)
		fail_msg("%s: its first line promises more than this program keeps", path);
	for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
		char *answer = strstr(line, " = ");
		json_error_t error;

		if (line[0] == '#' || answer == NULL)
			continue;
		assert_true(nrows < ROWS_MAX);
		rows[nrows].words = alloc_copy(line, (size_t)(answer - line));
		rows[nrows].answer = json_loads(answer + 3, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
		if (rows[nrows++].answer == NULL)
			fail_msg("%s: %s: %s", path, line, error.text);
	}
	free(text);
	free(path);
}

/* The words of a command, with a script by its name. */
static char *words_of(const struct fake_command *c)
{
	struct buffer words = {0};

	for (size_t i = c->script != NULL ? 1 : 0; i < c->argc; i++) {
		buffer_append(&words, " ", i > (c->script != NULL ? 1 : 0) ? 1 : 0);
		buffer_format(&words, "%s", c->script != NULL && i == 1 ? c->script : c->argv[i]);
	}
	buffer_append(&words, "", 1);
	return words.data;
}

static const json_t *answer_to(const struct fake_command *c)
{
	char *words = words_of(c);
	const json_t *found = NULL;

	for (size_t i = 0; i < nrows && found == NULL; i++) {
		size_t len = strlen(rows[i].words);

		if (strcmp(rows[i].words, "*") == 0 || (strncmp(words, rows[i].words, len) == 0 && (words[len] == ' ' || words[len] == '\0')))
			found = rows[i].answer;
	}
	free(words);
	return found;
}

static void write_answer(struct buffer *out, const json_t *answer)
{
	const json_t *each = json_object_get(answer, "each"), *element;
	size_t i, times = (size_t)json_integer_value(json_object_get(answer, "times"));

	if (json_is_integer(answer)) {
		fake_integer(out, json_integer_value(answer));
	} else if (json_is_string(answer)) {
		fake_string(out, json_string_value(answer), json_string_length(answer));
	} else if (json_is_array(answer)) {
		fake_array(out, json_array_size(answer));
		json_array_foreach(answer, i, element)
			write_answer(out, element);
	} else if (each != NULL) {
		fake_array(out, times);
		while (times-- > 0)
			write_answer(out, each);
	} else if (json_object_get(answer, "status") != NULL) {
		buffer_format(out, "+%s\r\n", json_string_value(json_object_get(answer, "status")));
	} else if (json_object_get(answer, "error") != NULL) {
		buffer_format(out, "-%s\r\n", json_string_value(json_object_get(answer, "error")));
	} else {
		fake_nil(out);
	}
}

/* true: as an honest server would; false: the connection ends. */
static bool answer(const struct fake_command *c, struct buffer *out, unsigned variant)
{
	const json_t *found = answer_to(c);

	if (found == NULL || json_is_true(found))
		return fake_registry_answer(&input, c, out, variant);
	write_answer(out, found);
	return true;
}

static bool cuts(const struct fake_command *c)
{
	return json_is_false(answer_to(c));
}

/* ---- cases ---- */

static void write_lines(struct buffer *to, const char *mark, char *text)
{
	char *rest = text;

	for (char *line; (line = strsep(&rest, "\n")) != NULL && (rest != NULL || *line != '\0');)
		buffer_format(to, "%s%s\n", mark, line);
	free(text);
}

/* A text that shows nothing of what its server promises would be compared with itself for ever. */
static void find_promised(const char *line, const char *report)
{
	char *names = alloc_string(promised), *rest = names;

	if (promised[0] == '\0')
		fail_msg("%s: the first line of its server does not say \"Doctor reports: CHECK, ...\"", line);
	for (char *name; (name = strsep(&rest, ", ")) != NULL;) {
		const char *row = report;
		char check[32] = "";

		while (*name != '\0' && row != NULL && strcmp(check, name) != 0) {
			sscanf(row, " %*[a-z] %31[a-z]", check);
			row = strchr(row, '\n');
			row += row != NULL;
		}
		if (strcmp(check, name) != 0)
			fail_msg("%s: there is no finding of the check %s, which the server promises", line, name);
	}
	free(names);
}

/* "$ SERVER WORD ..." */
static void run_case(struct buffer *to, const char *line)
{
	static const struct fake_redis_target target = { .answer = answer, .cuts = cuts };
	static const uint8_t zeros[1 << 14];		/* each makes an answer honest; behind the last one the connection ends */
	char *copy = alloc_string(line + 2), *rest = copy, *argv[WORDS_MAX + 2], *given[WORDS_MAX + 2];
	struct commands_said said;
	int argc = 0;

	read_server(strsep(&rest, " "));
	given[argc++] = alloc_string("quredis");
	for (char *word; (word = strsep(&rest, " ")) != NULL && argc <= WORDS_MAX;)
		given[argc++] = alloc_string(word);
	given[argc] = NULL;
	memcpy(argv, given, sizeof(argv));
	input = (struct input){ zeros, sizeof(zeros) };
	fake_time_begin();
	fake_redis_begin(&input, &target);
	said = commands_run(argc, argv, "");
	fake_redis_end();
	if (strcmp(argv[1], "doctor") == 0 && said.status != EX_USAGE)
		find_promised(line, said.out);
	buffer_format(to, "%s\n", line);
	write_lines(to, "|", said.out);
	write_lines(to, "!", said.err);
	buffer_format(to, "=%d\n", said.status);
	while (argc > 0)
		free(given[--argc]);
	free(copy);
}

static void first_difference(const char *path, const char *expected, const char *found)
{
	size_t at = 0, line = 1;

	for (; expected[at] != '\0' && expected[at] == found[at]; at++)
		line += expected[at] == '\n';
	while (at > 0 && expected[at - 1] != '\n')
		at--;
	fail_msg("%s:%zu: expected %.*s, but it says %.*s", path, line, (int)strcspn(expected + at, "\n"), expected + at,
	    (int)strcspn(found + at, "\n"), found + at);
}

static void commands_say_what_is_expected(void **state)
{
	const char *path = *state;
	char *expected = alloc_string(file_text(path)), *lines = alloc_string(expected), *rest = lines;
	const char *mode = getenv("QUREDIS_GOLDEN");
	struct buffer found = {0};

	for (char *line; (line = strsep(&rest, "\n")) != NULL;)
		if (line[0] == '$')
			run_case(&found, line);
	buffer_append(&found, "", 1);
	if (mode != NULL && strcmp(mode, "write") == 0) {
		FILE *file = fopen(path, "w");

		assert_true(file != NULL && fputs(found.data, file) >= 0 && fclose(file) == 0);
	} else if (strcmp(expected, found.data) != 0) {
		first_difference(path, expected, found.data);
	}
	free(lines);
	free(expected);
	buffer_free(&found);
}

int main(void)
{
	glob_t files;
	int failed;

	alarm(100);
	setenv("TZ", "UTC", 1);
	unsetenv("COLUMNS");
	commands_begin(conf_file);
	assert_int_equal(glob(FOLDER "*.expected", 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		char *path = files.gl_pathv[i], *name = strrchr(path, '/') + 1;

		unit_add((struct CMUnitTest){ alloc_copy(name, strcspn(name, ".")), commands_say_what_is_expected, NULL, NULL, path });
	}
	failed = unit_run(NULL, NULL);
	globfree(&files);
	for (size_t i = 0; i < unit_count; i++)
		free((char *)(uintptr_t)unit_tests[i].name);
	return failed;
}
