/* links: tests/unit/log/log_fixture.c */
/* Lines as they come out: both formats, hostile bytes, levels. test_log_target.c: where they go. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#define LIBBSD_NETBSD_VIS 1
#include <bsd/stdlib.h>
#include <bsd/vis.h>

#include "common/log/log.h"
#include "tests/unit/log/log_fixture.h"
#include "tests/unit/unit.h"

TEST(logfmt_line, log_fixture_setup)
{
	char pid[32];

	log_info("message_done", log_str("queue", "mail"), log_int("attempt", -3), log_str("absent", NULL));
	log_taken();
	snprintf(pid, sizeof(pid), "pid=%d queue=mail attempt=-3\n", (int)getpid());
	assert_memory_equal(log_text, "time=20", 7);
	log_assert_holds("Z level=info event=message_done process=\"worker mail/0\" ");
	log_assert_holds(pid);
	assert_ptr_equal(strchr(log_text, '\n'), log_text + strlen(log_text) - 1);
}

/* What stands behind pid in the only line of the log. */
static const char *behind_pid(void)
{
	const char *pid = strstr(log_taken(), " pid=");

	assert_non_null(pid);
	return strchr(pid + 1, ' ') != NULL ? strchr(pid + 1, ' ') : "\n";
}

/* The fields of log_bind() stand before those of the event, which may replace or leave out each of them. */
TEST(bound_fields, log_fixture_setup)
{
	log_bind("mail", "mail/0");
	log_info("plain");
	assert_string_equal(behind_pid(), " queue=mail worker=mail/0\n");
	log_info("other", log_int("n", 1), log_str("queue", "news"));
	assert_string_equal(behind_pid(), " worker=mail/0 n=1 queue=news\n");
	log_info("without", log_str("queue", NULL));
	assert_string_equal(behind_pid(), " worker=mail/0\n");
	log_bind("news", NULL);
	log_info("rebound");
	assert_string_equal(behind_pid(), " queue=news\n");
	log_bind(NULL, NULL);
	log_info("unbound");
	assert_string_equal(behind_pid(), "\n");
}

TEST(logfmt_quotes, log_fixture_setup)
{
	static const char hostile[] = "a b\"\\\n\t\0" "1\xff\x1b[m\xc2\x9b";

	log_info("e", log_bytes("v", hostile, sizeof(hostile) - 1), log_str("w", ""), log_str("x", "a=b"),
	    log_str("y", "Käse"), log_str("z", "x\xe2\x80\xaey"));
	log_taken();
	log_assert_holds(" v=\"a b\\\"\\\\\\n\\t\\0001\\377\\033[m\\302\\233\" w=\"\" x=\"a=b\" y=Käse z=\"x\\342\\200\\256y\"\n");
}

/* What was escaped reads back as it was, whatever it was. */
TEST(logfmt_any_bytes, log_fixture_setup)
{
	unsigned char bytes[600];
	char back[700];

	for (int round = 0; round < 2000; round++) {
		size_t len = arc4random_uniform(sizeof(bytes));
		char *begin_of, *end_of;

		for (size_t i = 0; i < len; i++)	/* many of those that matter */
			bytes[i] = arc4random_uniform(3) == 0 ? (unsigned char)arc4random() :
			    (unsigned char)("\0\0017\\\"\n\xc3\xa4 x="[arc4random_uniform(11)]);
		log_info("e", log_bytes("v", bytes, len), log_str("after", ""));
		log_taken();
		begin_of = strstr(log_text, " v=") + 3;
		end_of = strstr(begin_of, " after=\"\"\n");
		assert_non_null(end_of);
		if (*begin_of == '"') {
			begin_of++;
			end_of--;
		}
		*end_of = '\0';
		assert_int_equal(strnunvisx(back, sizeof(back), begin_of, 0), len);
		assert_memory_equal(back, bytes, len);
	}
}

TEST(caps_values, log_fixture_setup)
{
	static char big[300000];
	struct log_field fields[40];

	memset(big, 'x', sizeof(big));
	log_info("e", log_bytes("v", big, 1025));
	log_taken();
	log_assert_holds("x...(+1 bytes)\"\n");
	memset(big, 1, sizeof(big));
	for (size_t i = 0; i < 40; i++)
		fields[i] = log_bytes("k", big, sizeof(big));
	log_write(LOG_LEVEL_INFO, "e", fields, 40);
	log_taken();
	log_assert_holds(" truncated=true\n");
	assert_true(strlen(log_text) > 20000 && strlen(log_text) < 30000);
}

static json_t *parsed(void)
{
	json_error_t error;
	json_t *json;

	log_taken();
	json = json_loads(log_text, JSON_ALLOW_NUL, &error);
	if (json == NULL)
		fail_msg("%s: %s", error.text, log_text);
	return json;
}

static const char *field(json_t *json, const char *key)
{
	return json_string_value(json_object_get(json, key));
}

TEST(json_line, log_fixture_setup)
{
	json_t *json;

	log_open(log_path, LOG_FORMAT_JSON, LOG_LEVEL_INFO);
	log_warning("e", log_bytes("v", "a\"\\\n\x01\xff\xed\xa0\x80\xc3\xa4\xf0\x9f\x98\x80", 15), log_int("n", INT64_MIN));
	json = parsed();
	assert_string_equal(field(json, "level"), "warning");
	assert_string_equal(field(json, "process"), "worker mail/0");
	assert_int_equal(json_integer_value(json_object_get(json, "n")), INT64_MIN);
	assert_string_equal(field(json, "v"), "a\"\\\n\x01\\xff\\xed\\xa0\\x80\xc3\xa4\xf0\x9f\x98\x80");
	json_decref(json);
}

TEST(json_any_bytes, log_fixture_setup)
{
	unsigned char bytes[1500];
	struct log_field fields[30];

	log_open(log_path, LOG_FORMAT_JSON, LOG_LEVEL_INFO);
	for (int round = 0; round < 500; round++) {
		size_t n = arc4random_uniform(30);

		arc4random_buf(bytes, sizeof(bytes));
		for (size_t i = 0; i < n; i++)
			fields[i] = log_bytes("k", bytes, arc4random_uniform(sizeof(bytes)));
		log_write(LOG_LEVEL_INFO, "e", fields, n);
		json_decref(parsed());
	}
}

TEST(level_counts, log_fixture_setup)
{
	log_open(log_path, LOG_FORMAT_LOGFMT, LOG_LEVEL_WARNING);
	assert_false(log_enabled(LOG_LEVEL_INFO));
	log_info("no", log_int("n", 1));
	log_error("yes", log_int("n", 1));
	assert_null(strstr(log_taken(), "event=no"));
	log_assert_holds("event=yes");
}

TEST(errno_survives, log_fixture_setup)
{
	errno = ENOTTY;
	log_info("e", log_int("n", 1));
	assert_int_equal(errno, ENOTTY);
}

UNIT_MAIN(log_fixture_setup_all, log_fixture_teardown_all)
