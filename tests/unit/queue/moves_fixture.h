#ifndef TESTS_UNIT_QUEUE_MOVES_FIXTURE_H
#define TESTS_UNIT_QUEUE_MOVES_FIXTURE_H

/*
 * What the tests of the moves share: a redis-server of their own, the keys of a queue with short names, two incarnations of one
 * owner, and one message. Every test begins with an empty server without a limit of its memory.
 */
#include "common/queue/moves.h"
#include "common/queue/records.h"
#include "tests/unit/private_redis.h"

#define RAW "bytes\0and\nmore \xff"
#define RAW_LEN (sizeof(RAW) - 1)
#define TRAY "t:n.00000000000000b0.4.1:0"
#define LEASE "t:lease:n.00000000000000b0.4.1"
#define RESCUE "t:n.00000000000000b0.4.1:rescue"
#define MOVES_LARGE 10000	/* bytes: longer than what is sent whole */

extern struct private_redis server;
extern struct queue_keys keys;
extern struct queue_owner owner, next;		/* next: the same worker's next incarnation */
extern struct message message;			/* RAW */
extern struct buffer wrapped, line;		/* what comes back, and what makes it of RAW */
extern struct record record;
extern const struct queue_change change;	/* line is put before the message */
extern const struct queue_entry by_value, first, last;	/* RAW anywhere, at the left end, at the right end */

/* In key, whose type follows from its name: quredis:of:i:delayed is a sorted set, all others are lists. */
bool moves_is_set(const char *key);
void moves_put(const char *key, const void *data, size_t len);
int64_t moves_count(const char *key);
void moves_assert_holds(const char *name, const char *key, const void *data, size_t len);	/* the only entry of key is these bytes */

/* Of `len` bytes, with these at their ends and in the middle. */
const char *moves_large(char first_byte, char middle, char last_byte);

/* Of the owner's first tray: what Redis answers. */
int64_t moves_escape_too_large(int64_t limit);

int moves_setup_all(void **state);
int moves_teardown_all(void **state);
int moves_setup(void **state);

#endif
