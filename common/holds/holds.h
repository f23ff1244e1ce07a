#ifndef COMMON_HOLDS_HOLDS_H
#define COMMON_HOLDS_HOLDS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/board/board.h"
#include "common/conf/conf.h"
#include "common/facts/facts.h"
#include "common/holds/codes.h"

/*
 * A hold is a reason why a queue does not fetch, or not all that it should. One function judges it from the scoreboard,
 * so that every process and every face of the program says the same. table.c has the words for each hold, judge.c
 * decides, text.c explains.
 */

/* By rank: of several holds the last one counts, since an operator must know it first. */
enum hold {
	HOLD_NONE, HOLD_THROTTLED, HOLD_QUIET, HOLD_DRAINING, HOLD_PAUSED, HOLD_HELD, HOLD_RECOVERING, HOLD_LOADING,
	HOLD_BREAKER, HOLD_NO_PROCESS, HOLD_NO_WORKER, HOLD_ERROR, HOLD_REFUSED, HOLD_NO_REDIS, HOLD_BACKOFF,
	HOLD_QUARANTINE,
	HOLDS
};

/* From what is well to what is bad. */
enum hold_level {
	HOLD_WELL,
	HOLD_ORDERED,		/* an operator, a reload or a stop wants it so */
	HOLD_PASSING,		/* it ends by itself */
	HOLD_WARNING, HOLD_BAD,
	HOLD_LEVELS
};
extern const char *const hold_level_names[HOLD_LEVELS];	/* in documents */

enum hold_patience {
	PATIENCE_NONE,
	PATIENCE_SHORT,			/* it usually ends by itself within seconds */
	PATIENCE_OF_A_PAUSE		/* as long as a queue may be paused: health.thresholds.paused_max */
};

struct hold_words {
	const char *name;		/* the state of the queue in every document */
	enum hold_level level;
	const char *setter;		/* who sets it: "paused by an operator" */
	const char *end;		/* until when: "until quredis resume" */
	const char *text;		/* what it means, where no reason is known */
	/* of the reason in the health of the queue; several holds may share one. NULL: none */
	const char *code;
	const char *check;		/* of doctor that finds the cause, besides "supervisor"; NULL: none */
	/*
	 * Such a queue is unhealthy; otherwise it is degraded. `level` is for colours and doctor: the breaker is
	 * HOLD_BAD, but only degrades, since it probes and loses nothing.
	 */
	bool unhealthy;
	/* no worker fetches while it applies, not even one message to try the handler */
	bool shut;
	enum hold_patience patience;	/* for how long it is no reason yet */
	/* the reason while the queue recovers from it; NULL: its code has another row, which has the text */
	const char *over;
	/* An operator can do this: `advice`, and if there is `after`, the name of the queue and `after`. NULL: an
	 * operator ordered this hold in Redis */
	const char *advice, *after;
};

extern const struct hold_words holds_table[HOLDS];
bool holds_end_by_themselves(enum hold hold);	/* within seconds, as a rule */
enum hold holds_by_name(const char *name);	/* HOLDS: this version knows no such state */

/* Those of codes.h first. After them stand the holds: code HEALTH_HOLDS + hold is 1 while that lasts for longer than it
 * may. Holds that share a code share the place of the first one. */
enum health_code {
#define X(id, ...) HEALTH_##id,
	CODES_TABLE(X)
#undef X
	HEALTH_HOLDS,
	HEALTH_CODES = HEALTH_HOLDS + HOLDS
};
extern const struct code_words codes_table[HEALTH_HOLDS];
enum health_code holds_code(enum hold hold);		/* HEALTH_CODES: it has none */
const char *holds_code_name(enum health_code code);	/* "ingress", "breaker", …; NULL: a place that is not used */

/* ---- judge.c ---- */

/* The workers of each queue, by its place, as the slots of the scoreboard had them when holds_read_slots() read
 * them. */
struct hold_slots {
	struct worker_errors errors;
	struct hold_workers {
		int serving;		/* workers that live and do not leave */
		int connected;		/* of these, those with a connection to Redis */
		/* of these, the one without a connection that tries next; NULL: all are connected */
		const struct slot *next;
		int unable;		/* of the serving ones, those that could not start their handler */
		int loading;		/* of the serving ones, those whose handler has not said READY */
		int ready;		/* of the serving ones, those whose handler is READY now */
		int able;		/* those that have started a message, and could start the last one */
		const struct slot *starts;	/* of the unable ones, the one that tries next; NULL: there is none */
		/* of the serving ones, the one that the rate lets start first; NULL: none waits for that */
		const struct slot *throttled;
		const struct slot *seatless;	/* of these, one that waits for a seat; NULL: none does */
		int awaiting_seat;	/* so many do */
		const struct slot *failed;	/* of these, the one whose handler failed last; NULL: none did */
		int in_state[SLOT_STOPPING + 1];	/* also workers that leave, by enum slot_state */
	} of_queue[SCOREBOARD_QUEUES];
	const struct slot *sweeper;	/* the sweeper that does the periodic work, if it has lost Redis; else NULL */
};
void holds_read_slots(const struct scoreboard *b, struct hold_slots *slots);

struct judged {
	enum hold hold;
	/* static. NULL: there is nothing to say; with HOLD_NONE, what an operator should know although the queue
	 * runs */
	const char *reason;
	uint32_t error;		/* the error's word of HOLD_ERROR, HOLD_REFUSED and HOLD_NO_REDIS */
	/* bits by enum hold: those of lower rank that apply, too, and do not end by themselves within seconds */
	uint32_t also;
	bool shut;		/* this hold or another one lets no worker fetch, so none tries the handler */
};
struct judged holds_judge(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots);
/* All holds that apply, the worst first. Returns how many. */
size_t holds_list(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots,
    struct judged all[HOLDS]);
/* As holds_judge(), but from a list that holds_list() made: the board may have changed since. */
struct judged holds_worst(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots,
    const struct judged all[HOLDS], size_t n);
/* it usually ends by itself within seconds, or its error does */
bool holds_is_transient(const struct judged *judged);

const char *holds_aside(const struct board_queue *q);	/* why messages are set aside; NULL: none is */
#define HOLD_RELOAD_FAILED_WORDS "the last reload failed, and the configuration before it is in use"
/* behind "its" or "the" */
#define HOLD_NOT_READY_WORDS "new handler was not ready, and workers with the old one go on"
/* that the newest handler was not ready (enum queue_not_ready); NULL: nothing is known against it */
const char *holds_not_ready(const struct board_queue *q);
/* Why the queue has no workers, or fewer than it should, although nothing holds it; NULL: it has them, or none are
 * configured. */
const char *holds_understaffed(const struct board_queue *q, const struct hold_slots *slots, const struct scoreboard *b);
/* why a silent worker cannot be proven dead; NULL: there is no such worker */
const char *holds_undecided(const struct board_queue *q);

/* The worker of the queue, or the sweeper, that tries next to connect; NULL: none has lost Redis. */
const struct slot *holds_next_to_connect(const struct board_queue *q, const struct scoreboard *b,
    const struct hold_slots *slots);

/* ---- host.c ---- */

/*
 * The figures of FACT_OF_HOST, for every face that shows them; those of memory are not known. judged: the worst hold.
 * conf: NULL: the queue left the configuration. now_ms: CLOCK_MONOTONIC
 */
struct facts holds_host_facts(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots,
    const struct judged *judged, const struct conf_queue *conf, int64_t now_ms);

/* ---- text.c ---- */

/*
 * The reason with what workers, sweeper and master know of it: the step that failed, its error, the key, the last end,
 * and the time of the next attempt; then what else holds the queue. conf: NULL: the queue left the configuration.
 * now_ms: CLOCK_MONOTONIC; 0: without times, for a text that lasts. Returns out; NULL: there is no reason.
 */
#define HOLD_TEXT_SIZE 1024
const char *holds_explain(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots,
    const struct judged *judged, const struct conf_queue *conf, int64_t now_ms, char out[HOLD_TEXT_SIZE]);
/* The same for one row of holds_list(), which has a row for each of the others. */
const char *holds_explain_alone(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots,
    const struct judged *judged, const struct conf_queue *conf, int64_t now_ms, char out[HOLD_TEXT_SIZE]);

/* The words of holds_not_ready(), with the reason. NULL: there is none */
const char *holds_explain_not_ready(const struct board_queue *q, char out[HOLD_TEXT_SIZE]);

/*
 * For a report that is read later, without times: why the queue does not fetch; while it does, why it has no workers,
 * or fewer than it should. NULL: neither.
 */
const char *holds_lasting_reason(const struct scoreboard *b, const struct board_queue *q,
    const struct hold_slots *slots, const struct judged *judged, const struct conf_queue *conf,
    char out[HOLD_TEXT_SIZE]);

#endif
