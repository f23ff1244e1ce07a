/* links: tests/unit/conf/conf_fixture.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <glob.h>

#include "tests/unit/conf/conf_fixture.h"
#include "tests/unit/unit.h"

const char *__lsan_default_suppressions(void);

/* libconfig 1.5 forgets a string in which a syntax error came. */
const char *__lsan_default_suppressions(void)
{
	return "leak:libconfig.so\n";
}

/*
 * tests/conf/golden/NAME.conf is loaded as quredis.conf and must be answered with exactly NAME.expected. Run from the top of
 * the tree. QUREDIS_GOLDEN=1 writes the answers down instead: read the difference before it is committed.
 */
static char *slurp(const char *path)
{
	char *text = NULL;
	size_t len = 0;
	FILE *in = fopen(path, "re");

	if (in == NULL)
		fail_msg("%s cannot be read", path);
	if (getdelim(&text, &len, '\0', in) == -1) {
		free(text);
		text = calloc(1, 1);
	}
	fclose(in);
	return text;
}

static void write_down(const char *path, const char *text)
{
	FILE *out = fopen(path, "we");

	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

static void compare(struct conf_fixture *f, const char *path)
{
	char *text = slurp(path), *expected, expected_path[256];

	snprintf(expected_path, sizeof(expected_path), "%.*s.expected", (int)(strlen(path) - strlen(".conf")), path);
	conf_read_text(f, text);
	free(text);
	if (getenv("QUREDIS_GOLDEN") != NULL)
		write_down(expected_path, f->report);
	expected = slurp(expected_path);
	if (strcmp(f->report, expected) != 0)
		fail_msg("%s\n--- expected\n%s--- got\n%s", path, expected, f->report);
	assert_int_equal(f->conf == NULL, f->errors > 0);
	free(expected);
}

TEST(all_wrong_files_are_answered_as_before, conf_fixture_setup, conf_fixture_teardown)
{
	glob_t files;

	assert_int_equal(glob("tests/conf/golden/*.conf", 0, NULL, &files), 0);
	assert_true(files.gl_pathc >= 20);
	for (size_t i = 0; i < files.gl_pathc; i++)
		compare(*state, files.gl_pathv[i]);
	globfree(&files);
}

/* No prefix of a file, and no file with a byte changed, may crash, hang or leave something behind. */
TEST(damaged_files_are_survived, conf_fixture_setup, conf_fixture_teardown)
{
	static const char junk[] = { '{', '}', '(', ')', '"', '\\', ',', '=', '9', '@', '/', '*', '\n', '\x01', '\xff' };
	struct conf_fixture *f = *state;
	char *text = slurp("tests/conf/golden/groups.conf");
	size_t len = strlen(text);

	for (size_t n = 0; n < len; n += 7) {
		char kept = text[n];

		text[n] = '\0';
		conf_read_text(f, text);
		text[n] = junk[n / 7 % sizeof(junk)];
		conf_read_text(f, text);
		text[n] = kept;
	}
	free(text);
}

UNIT_MAIN(NULL, NULL)
