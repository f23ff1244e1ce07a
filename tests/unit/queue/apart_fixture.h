#ifndef TESTS_UNIT_QUEUE_APART_FIXTURE_H
#define TESTS_UNIT_QUEUE_APART_FIXTURE_H

#include "common/base/buffer.h"
#include "tests/unit/private_queue.h"

/* One large message of a private queue: its payload and its line lie apart while it is delayed (common/queue/scripts/shared/apart.lua). */
#define LARGE ((size_t)200000)
#define APART "quredis:of:i:delayed:apart"

extern char *payload;		/* LARGE bytes that begin with a header; id=large */
extern struct buffer line;	/* a wrapper that says apart=1 */

int apart_setup_all(void **state);
int apart_teardown_all(void **state);
int apart_setup(void **state);
void apart_new_line(void);

/* As a worker that has `raw` alone in its tray does it. */
int64_t apart_retry(const char *raw, size_t len, size_t strip, int64_t delay_ms);
void apart_put(int64_t delay_ms);		/* payload, from the owner's first tray */
struct redis_reply apart_due(bool all);		/* the answer to the move of what is due, or of all */

char *apart_list(void);				/* the key of the list that holds the payload; the caller frees it */
void apart_assert_is(size_t strip);
void apart_assert_holds(const char *list, const struct buffer *before);	/* one message: the line `before`, unless it is NULL, and the payload */
void apart_assert_nothing_delayed(void);

#endif
