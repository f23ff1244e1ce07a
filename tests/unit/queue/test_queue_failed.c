/* links: tests/unit/private_redis.c tests/unit/private_queue.c */

/*
 * The classes of failed attempts in Redis: two hosts are added, strangers' names stay bounded, and the text names the most
 * frequent and the latest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/queue/queue.h"
#include "tests/unit/private_queue.h"
#include "tests/unit/unit.h"

#define MINUTE 29000000
#define LATEST_MS "1740000000123"

static char text[QUEUE_FAILED_TEXT_SIZE];

static void note(int64_t minute, const struct class_figure *some, size_t n, const char *latest)
{
	static int64_t id;
	struct failed_batch batch = { .id = ++id, .minute = minute };

	memcpy(batch.figures, some, n * sizeof(*some));
	queue_failed_note(&server.r, &keys, "web1", &batch, latest);
	assert_int_equal(private_redis_answer(&server).integer, 1);
}

#define NOTE(minute, latest, ...) \
	note(minute, (struct class_figure[]){ __VA_ARGS__ }, sizeof((struct class_figure[]){ __VA_ARGS__ }) / sizeof(struct class_figure), latest)

static void read_minute(struct queue_failed *f, int64_t minute)
{
	struct redis_reply reply;

	queue_rate(&server.r, &keys, minute);
	reply = private_redis_answer(&server);
	queue_failed_add(f, &reply);
}

static void read_totals(struct queue_failed *f)
{
	struct redis_reply reply;

	queue_totals(&server.r, &keys);
	reply = private_redis_answer(&server);
	queue_failed_add(f, &reply);
	queue_failed_latest(f, &reply);
}

static uint64_t count_of(const struct queue_failed *f, const char *name)
{
	for (size_t i = 0; i < f->n; i++)
		if (strcmp(f->named[i].name, name) == 0)
			return f->named[i].n;
	return 0;
}

static uint64_t sum_of(const struct queue_failed *f)
{
	uint64_t n = f->other;

	for (size_t i = 0; i < f->n; i++)
		n += f->named[i].n;
	return n;
}

static int clear(void **state)
{
	(void)state;
	private_queue_clear();
	return 0;
}

TEST(two_hosts_are_added, clear)
{
	struct queue_failed f = {0};

	NOTE(MINUTE, LATEST_MS " Refused connect to mail:25: refused", { "Refused", 400 }, { "Timeout", 2 });
	NOTE(MINUTE, "", { "Refused", 90 });
	NOTE(MINUTE + 1, "", { "Refused", 8 });
	read_minute(&f, MINUTE);
	assert_int_equal(count_of(&f, "Refused"), 490);
	assert_int_equal(count_of(&f, "Timeout"), 2);
	read_minute(&f, MINUTE + 1);
	assert_int_equal(count_of(&f, "Refused"), 498);
	f = (struct queue_failed){0};
	read_totals(&f);
	assert_int_equal(sum_of(&f), 500);
	queue_failed_sort(&f);
	assert_string_equal(queue_failed_text(&f, text), "498 Refused, 2 Timeout; the latest: Refused: connect to mail:25: refused");
}

TEST(one_class_alone_has_its_text, clear)
{
	struct queue_failed f = {0};

	assert_string_equal(queue_failed_text(&f, text), "");
	NOTE(MINUTE, LATEST_MS " Refused connect to mail:25: refused", { "Refused", 498 });
	read_totals(&f);
	queue_failed_sort(&f);
	assert_string_equal(queue_failed_text(&f, text), "498 Refused: connect to mail:25: refused");
}

/* A host writes what it saw some seconds ago after another one has written what came later. Times far ahead are of a clock that was set. */
TEST(the_latest_is_not_the_last_that_was_written, clear)
{
	struct queue_failed f = {0};

	NOTE(MINUTE, "1740000004000 Later b", { "Later", 1 });
	NOTE(MINUTE, "1740000000000 Earlier a", { "Earlier", 1 });
	read_totals(&f);
	assert_string_equal(f.class, "Later");
	NOTE(MINUTE, "1740000005000 Last c", { "Last", 1 });
	read_totals(&f);
	assert_string_equal(f.class, "Last");
	NOTE(MINUTE, "1730000000000 Back d", { "Back", 1 });
	read_totals(&f);
	assert_string_equal(f.class, "Back");
}

static void note_users(int64_t minute, int first, int n)
{
	struct class_figure users[FAILED_FIGURES] = {0};

	for (int i = 0; i < n; i += FAILED_NAMES) {
		for (int k = 0; k < FAILED_NAMES; k++) {
			users[k].n = 1;
			snprintf(users[k].name, sizeof(users[k].name), "user%d", first + i + k);
		}
		note(minute, users, FAILED_NAMES, LATEST_MS " user1 x");
	}
}

/* Ten thousand names first; then a class that fails has its place in the minute and in the totals, and the names stay bounded. */
TEST(strangers_names_stay_bounded, clear)
{
	struct queue_failed minute = {0}, totals = {0};
	int64_t size;

	note_users(MINUTE, 0, 10000);
	size = REDIS_INT(&server, "HLEN %s", keys.stats);
	assert_true(size <= FAILED_NAMES + 2);
	for (int i = 0; i < 20; i++) {
		NOTE(MINUTE, "", { "Refused", 3 });
		note_users(MINUTE, 10000 + 16 * i, 16);
	}
	assert_true(REDIS_INT(&server, "HLEN %s", keys.stats) <= FAILED_NAMES + 2);
	read_minute(&minute, MINUTE);
	assert_int_equal(count_of(&minute, "Refused"), 60);
	assert_int_equal(sum_of(&minute), 10000 + 60 + 320);
	assert_true(minute.n <= FAILED_NAMES);
	read_totals(&totals);
	assert_int_equal(count_of(&totals, "Refused"), 60);
	assert_int_equal(sum_of(&totals), 10000 + 60 + 320);
}

/* A window of minutes with many names each: bounded here, too, and none of the many has a line. */
TEST(a_window_stays_bounded, clear)
{
	struct queue_failed f = {0};

	for (int i = 0; i < 60; i++) {
		note_users(MINUTE + i, 1000 * i, 32);
		NOTE(MINUTE + i, "", { "Refused", 4 });
		read_minute(&f, MINUTE + i);
	}
	assert_true(f.n <= QUEUE_FAILED_NAMES);
	assert_int_equal(sum_of(&f), 60 * 36);
	queue_failed_sort(&f);
	assert_int_equal(f.n, 1);
	assert_int_equal(count_of(&f, "Refused"), 240);
	assert_int_equal(sum_of(&f), 60 * 36);
	assert_string_equal(queue_failed_text(&f, text), "240 Refused, 1920 of other classes");
}

/* Other programs write to Redis, too. */
TEST(what_no_handler_could_write_is_not_shown, clear)
{
	struct queue_failed f = {0};
	json_t *o = json_object();

	REDIS(&server, "HSET %s failed:--all 7 failed: 1 failed:a/b 2 failed:Good 5 failed:Bad x failed:Worse -3 failed:other 4 "
		       "failed 99 failed_latest %b", keys.stats, "17 Good \xff\x1b[31m\nred", sizeof("17 Good \xff\x1b[31m\nred") - 1);
	read_totals(&f);
	assert_int_equal(f.n, 1);
	assert_int_equal(count_of(&f, "Good"), 5);
	assert_int_equal(f.other, 7 + 1 + 2 + 4);
	assert_string_equal(f.text, "??[31m?red");
	queue_failed_json(&f, o);
	assert_string_equal(json_string_value(json_object_get(json_object_get(o, "latest"), "error")), "??[31m?red");
	assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "classes"), "Good")), 5);
	json_decref(o);
	REDIS(&server, "HSET %s failed_latest %s", keys.stats, "17 --all x");
	f = (struct queue_failed){0};
	read_totals(&f);
	assert_int_equal(f.at_ms, 0);
	REDIS(&server, "HSET %s failed:Good 99999999999999999999 failed:Bad nan", keys.stats);
	NOTE(MINUTE, "", { "Good", 1 }, { "Bad", 1 });
	f = (struct queue_failed){0};
	read_totals(&f);
	assert_int_equal(count_of(&f, "Bad"), 1);
}

/* Redis refuses one of the keys: nothing is counted, since the caller counts all of it again. */
TEST(a_refused_key_counts_nothing, clear)
{
	const struct failed_batch one = { .id = 1, .minute = MINUTE, .figures = { { "Refused", 1 } } };
	char *rate = queue_rate_key(&keys, MINUTE);

	REDIS(&server, "SET %s x", rate);
	queue_failed_note(&server.r, &keys, "web1", &one, LATEST_MS " Refused x");
	assert_int_equal(private_redis_answer_or_error(&server).type, REDIS_ERROR);
	assert_int_equal(REDIS_INT(&server, "EXISTS %s", keys.stats), 0);
	free(rate);
}

/* Its sender did not see the answer, and another node's batch came between. */
TEST(a_batch_that_comes_again_counts_once, clear)
{
	static const char *const nodes[] = { "web1", "web2", "web1", "web2" };
	const struct failed_batch first = { .id = INT64_C(1) << 47, .minute = MINUTE, .figures = { { "Refused", 3 }, { CLASS_OTHER, 2 } } };
	struct failed_batch next = first;
	struct queue_failed minute = {0}, totals = {0};

	next.id++;
	for (int i = 0; i < 4; i++) {
		queue_failed_note(&server.r, &keys, nodes[i], &first, "");
		assert_int_equal(private_redis_answer(&server).integer, i < 2);
	}
	queue_failed_note(&server.r, &keys, "web1", &next, "");
	assert_int_equal(private_redis_answer(&server).integer, 1);
	read_minute(&minute, MINUTE);
	read_totals(&totals);
	assert_int_equal(count_of(&minute, "Refused"), 9);
	assert_int_equal(count_of(&totals, "Refused"), 9);
	assert_int_equal(totals.other, 6);
}

static int setup(void **state)
{
	(void)state;
	private_queue_start();
	return 0;
}

UNIT_MAIN(setup, private_queue_stop)
