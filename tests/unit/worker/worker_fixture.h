#ifndef TESTS_UNIT_WORKER_WORKER_FIXTURE_H
#define TESTS_UNIT_WORKER_WORKER_FIXTURE_H

/*
 * A whole worker of the queue "mail" with fakes around it: a connection that keeps the commands and answers nothing, clocks that stand,
 * a runner that runs nothing, a scoreboard and a configuration of its own. A test calls the functions of one component, looks at
 * the commands that it appended, and gives it the replies. All other components are the real ones.
 *
 * A test that uses it names worker_fixture.c and tests/fuzz/fake_time.c in its line "links", and in its line "ldflags" the --wrap of the
 * functions that tests/fuzz/fake_time.h lists, as test_starter.c does.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/fuzz/fake_time.h"
#include "worker/worker.h"

#define INC "n.00000000000000b0.1.1"		/* the incarnation of the worker after fixture_setup() */
#define TRAY(n) "t:" INC ":" #n			/* its trays: t:INC:0 */
#define HAND_BACK(tray) "hand_back t:lease:" INC " " TRAY(tray) " i quredis:of:i:cancels 30000 "
#define LEASE_MS 30000

extern struct worker *w;

/* What a test may change, at any time. */
struct worker_fixture {
	struct conf conf;
	struct conf_queue queue;	/* keys i, t and e; exec; no batch; three attempts; statuses 0 done, 75 retry, 65 escape, else fail */
	struct child child;
	struct env *env;
	struct scoreboard board;	/* RUN, gate open */
	struct fixture_runner {		/* what the fake runner says, and what it was told */
		int room;
		bool not_ready;
		int starts;		/* calls of start(), which starts nothing */
		int64_t deadline_ms;
	} runner;
};
extern struct worker_fixture fixture;

int fixture_setup(void **state);		/* connected and registered; the lease lasts for LEASE_MS */
int fixture_setup_closed(void **state);		/* as a worker starts: no connection, no name */
int fixture_teardown(void **state);
void fixture_share(void);			/* the queue is shared */

/* ---- time ---- */
int64_t fixture_now_ms(void);			/* CLOCK_MONOTONIC at the begin of this turn */
int64_t fixture_pass_ms(int64_t ms);		/* a new turn, so much later; returns fixture_now_ms() */

/* ---- messages ---- */

/* The tray is FILLED with these messages, WAITING, the first one the oldest. raws ends with NULL. */
void fixture_fill(int tray, const char *const *raws);
#define FILL(tray, ...) fixture_fill((tray), (const char *const[]){ __VA_ARGS__, NULL })
#define PLACE(tray, item) ((struct place){ (tray), (item) })
struct item *fixture_item(int tray, int item);
/* A message whose first line is a wrapper without a seal: "quredis/w1 …\nbytes". It gets the seal. Valid until teardown. */
const char *fixture_sealed(const char *text);

/* ---- what was sent, and replies ---- */

/*
 * The words of the next command that was not looked at yet, with a blank between them; a script is called by its name, without its
 * number of keys, and '' is an empty word. "": no other command was sent. Valid until the next call.
 */
const char *fixture_sent(void);
void fixture_assert_sent(const char *begin, const char *file, int line);	/* the next command begins with these words */
#define assert_sent(begin) fixture_assert_sent((begin), __FILE__, __LINE__)
#define assert_sent_nothing() assert_string_equal(fixture_sent(), "")
void fixture_forget_sent(void);

/* The component waits for this answer next, in the order of the requests: enum answer, tray, item. */
void fixture_assert_awaits(int answer, int tray, int item, const char *file, int line);
#define assert_awaits(answer, tray, item) fixture_assert_awaits((answer), (tray), (item), __FILE__, __LINE__)
#define assert_awaits_nothing() assert_int_equal(w->session.answers.first, w->session.answers.next)

/* A reply as Redis sends it: ":1\r\n", "*2\r\n$1\r\na\r\n:7\r\n", "-ERR no\r\n". Valid until teardown. */
const struct redis_reply *fixture_reply(const char *resp);
const struct redis_reply *fixture_integer(int64_t n);
const struct redis_reply *fixture_string(const char *text);

/*
 * ---- connections that the worker opens ----
 * Such a test also wraps redisConnectUnixNonBlock, redisBufferRead and redis_output_write. Sent commands stay where fixture_sent() finds them.
 */
extern bool fixture_refuses;			/* connections are refused */
void fixture_receive(struct redis *r, const char *resp);	/* the next redis_pump() of this connection reads these bytes */
void fixture_hang_up(struct redis *r);		/* the next redis_pump() of this connection finds its end */
void fixture_receive_greetings(void);		/* of the session: the answers to all commands with which it opens */

/* ---- the log, and the scoreboard ---- */
int fixture_logged(const char *text);		/* how many lines of the log hold this text */
uint64_t fixture_counted(enum counter counter);	/* a counter of the slot */

#endif
