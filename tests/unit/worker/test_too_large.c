/* links: tests/unit/private_redis.c tests/unit/worker/lone_worker.c */
/* ldflags: -Wl,--wrap=redis_arriving -Wl,--wrap=log_write */
/* Messages longer than message_max: by which bytes the worker knows one, and how Redis moves it to escape without sending it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/base.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/lone_worker.h"

#define MOST 1000
#define SEEN_MIN (16 << 20)
#define WRAPPER "quredis/1 w=00000000000000ab attempts=1\n"
#define FORGED "quredis/1 w=00000000000000ab mac=00000000000000000000000000000000\n"

static struct {
	const char *begin;
	size_t arrived;
	int64_t len;
} arriving;
static int escaped, records_failed, aside_logged;
static int readings;	/* of the trays */
static bool singly;
static char why[96];

int64_t __wrap_redis_arriving(const struct redis *r, const char **begin, size_t *arrived);
void __wrap_log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n);

int64_t __wrap_redis_arriving(const struct redis *r, const char **begin, size_t *arrived)
{
	assert_ptr_equal(r, &lone.w->session.redis);
	if (arriving.len != -1) {
		*begin = arriving.begin;
		*arrived = arriving.arrived;
	}
	return arriving.len;
}

void __wrap_log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
	(void)level, (void)fields, (void)n;
	aside_logged += strcmp(event, "message_set_aside") == 0;
}

void settle_escape(struct worker *w, struct place p, const char *class, const char *message, const struct handler_result *result)
{
	assert_null(result);
	assert_string_equal(class, "TooLarge");
	snprintf(why, sizeof(why), "%s", message);
	tray_move(&w->trays, p, MOVE_ESCAPE);
	escaped++;
}

bool undeliverable_reads_singly(const struct worker *w)
{
	(void)w;
	return singly;
}

void undeliverable_read_trays(struct worker *w)
{
	(void)w;
	readings++;
}

void mover_record_failed(void)
{
	records_failed++;
}

static int setup(void **state)
{
	(void)state;
	escaped = records_failed = aside_logged = readings = 0;
	singly = false;
	lone_worker_begin(false);
	lone_worker_connect();
	lone.queue.message_max = MOST;
	lone.queue.dead_letter.enabled = true;
	pacing_init(&lone.w->pacing, &lone.queue);
	too_large_init(lone.w);
	return 0;
}

/* ---- while it arrives ---- */

static bool arrives(enum answer expected, const char *begin, size_t arrived, int64_t len)
{
	struct answers *a = &lone.w->session.answers;

	arriving.begin = begin;
	arriving.arrived = arrived;
	arriving.len = len;
	a->first = ANSWERS_MAX + 3;		/* the ring has gone round */
	a->next = a->first + 1;
	a->ring[3] = (struct expected){ (uint8_t)expected, 2, 0 };
	return too_large_arriving(lone.w);
}

TEST(a_message_of_message_max_is_received, setup, lone_worker_teardown)
{
	assert_false(arrives(ANSWER_FETCH, "abcdefghijkl", 12, MOST));
	assert_int_equal(lone.w->too_large.tray, -1);
	assert_true(arrives(ANSWER_FETCH, "abcdefghijkl", 12, MOST + 1));
	assert_int_equal(lone.w->too_large.tray, 2);
}

TEST(a_list_of_a_tray_is_left_for_a_long_message_too, setup, lone_worker_teardown)
{
	assert_true(arrives(ANSWER_ADOPT, "abcdefghijkl", 12, MOST + 1));
}

/* Records and notes may be longer than message_max. */
TEST(other_answers_may_have_any_length, setup, lone_worker_teardown)
{
	for (int answer = 0; answer <= ANSWER_DEREGISTER; answer++)
		if (answer != ANSWER_FETCH && answer != ANSWER_ADOPT)
			assert_false(arrives((enum answer)answer, "abcdefghijkl", 12, MOST + 5000));
	assert_int_equal(lone.w->too_large.tray, -1);
}

/* The ring still holds what was expected there before. */
TEST(without_an_expected_answer_nothing_is_too_long, setup, lone_worker_teardown)
{
	assert_true(arrives(ANSWER_FETCH, "abcdefghijkl", 12, MOST + 1));
	lone.w->session.answers.first++;
	lone.w->session.answers.ring[4] = (struct expected){ ANSWER_FETCH, 2, 0 };
	assert_false(too_large_arriving(lone.w));
}

TEST(the_slot_waits_for_the_bytes_that_tell_a_wrapper, setup, lone_worker_teardown)
{
	assert_false(arrives(ANSWER_FETCH, "", 0, -1));
	assert_false(arrives(ANSWER_FETCH, "abcdefghijk", 11, MOST + 1));
	assert_true(arrives(ANSWER_FETCH, "abcdefghijkl", 12, MOST + 1));
}

TEST(a_wrapper_does_not_count, setup, lone_worker_teardown)
{
	assert_false(arrives(ANSWER_FETCH, WRAPPER, 12, MOST + MESSAGE_LINE_MAX));
	assert_true(arrives(ANSWER_FETCH, WRAPPER, 12, MOST + MESSAGE_LINE_MAX + 1));
}

/* Without a wrapper Redis can move it unread; up to this length the record has its SHA1 instead. */
TEST(the_length_is_kept_for_a_huge_message_without_a_wrapper, setup, lone_worker_teardown)
{
	assert_true(arrives(ANSWER_FETCH, "abcdefghijkl", 12, SEEN_MIN));
	assert_int_equal(lone.w->too_large.seen, 0);
	assert_true(arrives(ANSWER_FETCH, "abcdefghijkl", 12, SEEN_MIN + 1));
	assert_int_equal(lone.w->too_large.seen, SEEN_MIN + 1);
	assert_true(arrives(ANSWER_FETCH, WRAPPER, 12, SEEN_MIN + 1));
	assert_int_equal(lone.w->too_large.seen, 0);
}

/* ---- the move ---- */

static void push(const char *first, size_t len)
{
	char *raw = alloc_zero(len + 1, 1);

	memset(raw, 'x', len);
	memcpy(raw, first, strlen(first) < len ? strlen(first) : len);
	REDIS(&lone_server, "LPUSH %s %b", lone.w->session.owner.trays[0], raw, len);
	free(raw);
}

static uint64_t count(enum counter counter)
{
	return atomic_load(&lone.env->slot->counters[counter]);
}

static int64_t length_of(const char *list)
{
	return REDIS_INT(&lone_server, "LLEN %s", list);
}

/* As after a renewal, until Redis has no answer left or the connection is dropped. True: the trays can be read. */
static bool escape_all(void)
{
	lone.w->too_large.tray = 0;
	lone.w->now_us = 30000;
	too_large_named(lone.w);
	too_large_confirmed(lone.w);
	assert_int_equal(readings, 0);
	for (int questions = 0; questions < 20; questions++) {
		int before = lone.expected, dropped = lone.dropped;
		struct redis_reply reply = lone_worker_answer();

		assert_int_equal(lone.last.answer, ANSWER_TOO_LARGE);
		assert_int_equal(lone.due_ms, 30 + REDIS_TIMEOUT_MS);
		too_large_answer(lone.w, (struct place){ 0, 0 }, &reply, 30);
		if (readings > 0) {
			readings = 0;
			return true;
		}
		if (lone.dropped > dropped)
			return false;
		assert_int_equal(lone.expected, before + 1);
	}
	fail_msg("the worker asks without end");
	return false;
}

static const char *record(const char *log, const char *name)
{
	static char value[256];
	struct redis_reply all = REDIS(&lone_server, "XREVRANGE %s + - COUNT 1", log), entry = redis_element(&all, 0), fields = redis_element(&entry, 1);

	for (size_t i = 0; i + 1 < fields.n; i += 2)
		if (strcmp(redis_element(&fields, i).str, name) == 0)
			snprintf(value, sizeof(value), "%s", redis_element(&fields, i + 1).str);
	return value;
}

TEST(without_such_a_message_nothing_is_sent, setup, lone_worker_teardown)
{
	too_large_named(lone.w);
	assert_int_equal(readings, 1);
	too_large_confirmed(lone.w);
	assert_int_equal(readings, 1);
	singly = true;
	too_large_named(lone.w);
	assert_int_equal(readings, 1);
	too_large_confirmed(lone.w);
	assert_int_equal(readings, 2);
	assert_int_equal(lone.expected, 0);
}

TEST(each_long_message_of_the_tray_escapes, setup, lone_worker_teardown)
{
	push("a", MOST + 1);
	push("b", MOST);
	push("c", MOST + 2);
	assert_true(escape_all());
	assert_int_equal(lone.w->too_large.tray, -1);
	assert_int_equal(length_of(lone.w->session.owner.trays[0]), 1);
	assert_int_equal(length_of("e"), 2);
	assert_int_equal(lone.w->session.owner.moved[0], 2);
	assert_int_equal(REDIS(&lone_server, "HGET %s %s", lone.w->session.owner.lease, lone.w->session.owner.trays[0]).str[0], '2');
	assert_int_equal(count(COUNT_FETCHED), 2);
	assert_int_equal(count(COUNT_ESCAPED), 2);
	assert_int_equal(count(COUNT_TOO_LARGE), 2);
	assert_int_equal(atomic_load(&lone.env->board->workers.done), 2);
	assert_string_equal(record("e:log", "error_class"), "TooLarge");
	assert_string_equal(record("e:log", "error_message"), "1002 bytes; message_max is 1000");
	assert_string_equal(record("e:log", "worker"), LONE_INCARNATION);
}

TEST(without_dead_letter_records_none_is_written, setup, lone_worker_teardown)
{
	lone.queue.dead_letter.enabled = false;
	push("a", MOST + 1);
	assert_true(escape_all());
	assert_int_equal(length_of("e"), 1);
	assert_int_equal(REDIS_INT(&lone_server, "EXISTS e:log"), 0);
	assert_int_equal(records_failed, 0);
}

TEST(a_refused_record_does_not_stop_the_escape, setup, lone_worker_teardown)
{
	REDIS(&lone_server, "SET e:log x");
	push("a", MOST + 1);
	assert_true(escape_all());
	assert_int_equal(length_of("e"), 1);
	assert_int_equal(records_failed, 1);
}

TEST(a_message_escapes_without_its_wrapper, setup, lone_worker_teardown)
{
	struct tray *t = &lone.w->trays.tray[1];
	char raw[sizeof(WRAPPER) + 3 * MOST] = WRAPPER;

	memset(raw + strlen(WRAPPER), 'x', 3 * MOST);
	lone_worker_add_sealed(1, raw);		/* only to seal it */
	REDIS(&lone_server, "LPUSH %s %b", lone.w->session.owner.trays[0], tray_raw(t, &t->items[0]), t->items[0].len);
	assert_true(escape_all());
	assert_int_equal(length_of("e"), 1);
	assert_int_equal(REDIS(&lone_server, "LINDEX e 0").len, 3 * MOST);
}

TEST(a_forged_wrapper_escapes_with_its_message, setup, lone_worker_teardown)
{
	push(FORGED, 3 * MOST);
	assert_true(escape_all());
	assert_int_equal(REDIS(&lone_server, "LINDEX e 0").len, 3 * MOST);
	assert_string_equal(record("e:log", "error_class"), "UnknownSeal");
}

TEST(a_huge_message_that_is_not_alone_is_read_by_redis, setup, lone_worker_teardown)
{
	push("a", MOST + 1);
	push("b", 1);
	lone.w->too_large.seen = MOST + 1;
	assert_true(escape_all());
	assert_int_equal(length_of("e"), 1);
	assert_int_equal(lone.w->too_large.seen, 0);
}

TEST(a_huge_message_escapes_unread, setup, lone_worker_teardown)
{
	lone.queue.message_max = 1 << 20;
	push("a", SEEN_MIN + 1);
	lone.w->too_large.seen = SEEN_MIN + 1;
	REDIS(&lone_server, "CONFIG RESETSTAT");
	assert_true(escape_all());
	assert_non_null(strstr(REDIS(&lone_server, "INFO commandstats").str, "cmdstat_rename:"));
	assert_int_equal(length_of("e"), 1);
	assert_string_equal(record("e:log", "size"), "16777217");
	assert_string_equal(record("e:log", "sha1"), "");
}

/* ---- refusals ---- */

TEST(a_message_that_escape_refuses_is_set_aside, setup, lone_worker_teardown)
{
	REDIS(&lone_server, "SET e x");
	lone.queue.dead_letter.enabled = false;	/* what is set aside has a record in any case */
	push("a", MOST + 1);
	for (int i = 1; i <= MOVE_ATTEMPTS; i++) {
		assert_false(escape_all());
		assert_int_equal(lone.dropped, i);
		assert_int_equal(length_of("t:aside"), 0);
	}
	assert_true(escape_all());
	assert_int_equal(length_of("t:aside"), 1);
	assert_string_equal(record("t:aside:log", "error_message"), "1001 bytes: escape refused it; message_max is 1000");
	assert_int_equal(aside_logged, 1);
	assert_int_equal(count(COUNT_ESCAPED), 0);
	assert_int_equal(lone.w->session.owner.moved[0], 1);
	assert_int_equal(lone.w->too_large.refusals, 0);
}

TEST(a_redis_that_refuses_everything_sets_nothing_aside, setup, lone_worker_teardown)
{
	static const struct redis_reply readonly = { .type = REDIS_ERROR, .str = "READONLY x", .len = 10 };

	lone.w->too_large.tray = 0;
	for (int i = 0; i < 3 * MOVE_ATTEMPTS; i++)
		too_large_answer(lone.w, (struct place){ 0, 0 }, &readonly, 0);
	assert_int_equal(lone.dropped, 3 * MOVE_ATTEMPTS);
	assert_int_equal(lone.w->too_large.refusals, 0);
	assert_int_equal(lone.w->too_large.tray, 0);
}

TEST(an_answer_in_another_form_closes_the_connection, setup, lone_worker_teardown)
{
	static const char *const scripts[] = { "return 1", "return {}", "return {0, ''}", "return {0, '', 1, 1}", "return {'0', '', 1}",
		"return {0, 0, 1}", "return {0, '', ''}" };

	for (size_t i = 0; i < nitems(scripts); i++) {
		struct redis_reply reply = REDIS(&lone_server, "EVAL %s 0", scripts[i]);

		lone.w->too_large.tray = 0;
		too_large_answer(lone.w, (struct place){ 0, 0 }, &reply, 0);
		assert_int_equal(lone.dropped, i + 1);
		assert_int_equal(lone.w->too_large.tray, 0);
	}
}

/* ---- a long message that arrived ---- */

static bool escapes(size_t payload, bool wrapped)
{
	char raw[sizeof(WRAPPER) + 2 * MOST] = WRAPPER;
	struct tray *t = &lone.w->trays.tray[0];

	memset(raw + strlen(WRAPPER), 'x', payload);
	if (wrapped)
		lone_worker_add_sealed(0, raw);
	else
		lone_worker_add(0, raw + strlen(WRAPPER));
	if (t->state == TRAY_EMPTY)
		tray_filled(&lone.w->trays, 0);
	lone.w->starter.job.message = tray_message(&lone.w->trays, AT(0, t->n - 1));
	return too_large_escapes(lone.w, AT(0, t->n - 1));
}

TEST(a_long_message_that_arrived_escapes_before_it_starts, setup, lone_worker_teardown)
{
	assert_false(escapes(MOST, false));
	assert_false(escapes(MOST, true));
	assert_int_equal(escaped, 0);
	assert_true(escapes(MOST + 1, true));
	assert_string_equal(why, "1001 bytes; message_max is 1000");
	assert_true(escapes(MOST + 1, false));
	assert_int_equal(escaped, 2);
}

UNIT_MAIN(lone_worker_start_server, lone_worker_stop_server)
