/* The large message that tests of large delayed messages share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/queue/apart_fixture.h"

#include "common/queue/waiting.h"

char *payload;
struct buffer line;

int apart_setup_all(void **state)
{
	static const char header[] = "quredis/1 id=large\n";

	(void)state;
	payload = malloc(LARGE);
	memset(payload, 'x', LARGE);
	memcpy(payload, header, sizeof(header) - 1);
	payload[LARGE - 1] = '\0';
	private_queue_start();
	return 0;
}

int apart_teardown_all(void **state)
{
	free(payload);
	buffer_free(&line);
	return private_queue_stop(state);
}

void apart_new_line(void)
{
	buffer_clear(&line);
	message_wrapper(&line, &keys.lines, &(struct wrapper){ .attempts = 1, .apart = true });
}

int apart_setup(void **state)
{
	(void)state;
	private_queue_clear();
	apart_new_line();
	return 0;
}

int64_t apart_retry(const char *raw, size_t len, size_t strip, int64_t delay_ms)
{
	const struct queue_entry entry = { .raw = raw, .len = len, .at = -1, .of = 1, .moved = owner.moved[0] };
	const struct queue_change change = { &line, strip };

	queue_retry(&server.r, &(struct queue_move){ QUEUE_FROM_TRAY(&owner, 0),
	    .entry = &entry, .change = &change }, delay_ms);
	return private_redis_answer(&server).integer;
}

void apart_put(int64_t delay_ms)
{
	REDIS(&server, "LPUSH %s %b", owner.trays[0], payload, LARGE);
	assert_int_equal(apart_retry(payload, LARGE, 0, delay_ms), 1);
}

char *apart_list(void)
{
	char *list = NULL;

	assert_int_not_equal(asprintf(&list, APART ":%.16s", strstr(line.data, "w=") + 2), -1);
	return list;
}

void apart_assert_is(size_t strip)
{
	char *list = apart_list();
	struct redis_reply member = REDIS(&server, "ZRANGE quredis:of:i:delayed 0 -1"), element = redis_element(&member, 0);

	assert_int_equal(member.n, 1);
	assert_int_equal(element.len, line.len);
	assert_memory_equal(element.str, line.data, line.len);
	assert_int_equal(REDIS_INT(&server, "LLEN %s", list), 5);
	assert_int_equal(atoi(REDIS(&server, "LINDEX %s 1", list).str), (int)strip);
	assert_int_equal(atoi(REDIS(&server, "HGET " APART " %s", list + sizeof(APART)).str), (int)LARGE);
	assert_int_equal(REDIS_INT(&server, "EXISTS %s", owner.trays[0]), 0);
	free(list);
}

void apart_assert_holds(const char *list, const struct buffer *before)
{
	struct redis_reply entry = REDIS(&server, "LINDEX %s 0", list);
	size_t len = before == NULL ? 0 : before->len;

	assert_int_equal(entry.len, len + LARGE);
	if (before != NULL)
		assert_memory_equal(entry.str, before->data, len);
	assert_memory_equal(entry.str + len, payload, LARGE);
	assert_int_equal(REDIS_INT(&server, "LLEN %s", list), 1);
}

void apart_assert_nothing_delayed(void)
{
	char *list = apart_list();

	assert_int_equal(REDIS_INT(&server, "EXISTS quredis:of:i:delayed " APART " %s", list), 0);
	free(list);
}

struct redis_reply apart_due(bool all)
{
	struct redis_reply first;
	void *kept;

	queue_glance_delayed(&server.r, &keys, 0, 9);
	first = private_redis_answer(&server);
	kept = redis_keep(&server.r);
	queue_due(&server.r, &keys, all, 10, &first);
	redis_let_go(kept);
	return private_redis_answer(&server);
}
