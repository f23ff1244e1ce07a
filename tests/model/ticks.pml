/*
 * Schedules as a model: a tick is pushed at most once, unless Redis lost that, and none is skipped that nobody counts.
 * docs/model.md says what it shows.
 *	sweeper/age/schedules.c common/queue/scripts/tick.lua
 * Two sweepers take the same schedule for theirs all the time, so the lead protects nothing here. Time is counted in
 * units in which a tick may come.
 */

#define LEADERS 2
#define TIMES 5		/* the clock of Redis shows 0 .. TIMES - 1 */
#define AHEAD 1		/* QUEUE_SCHEDULE_AHEAD_MS */

typedef bounds {
	unsigned mutant : 5;
	unsigned every : 2;	/* of the first definition; the second one has 3 - every */
	unsigned one : 1;	/* catch_up = "one", else "none" */
	unsigned alone : 1	/* overlap = false */
};
bounds bound;

#define NO_RECORD 1
#define ANY_LAST 2
#define RECORDS_LATER 3
#define PUSHES_LATER 4
#define CHANGED_BEGINS_NOW 5
#define REFUSED_IS_RECORDED 6
#define MISSED_IS_FORGOTTEN 7
#define CLOCK_OF_THE_LEADER 8
#define LOOKS_NOWHERE 9
#define ANY_DEFINITION 10

/* How often each may happen still. */
byte cuts, rollbacks, changes, backs, refusals;

/* ---- Redis ---- */

typedef redis {
	unsigned definition : 2;	/* of the record; 0: there is none */
	unsigned last : 3;
	unsigned missed : 3;
	unsigned skipped : 3;
	unsigned waits : 1;		/* a message of it is in the queue */
	/* for the properties */
	unsigned began : 3;		/* when this record did */
	unsigned pushes : 3;		/* since then */
	byte pushed			/* which ticks, one bit each */
};
redis is;
redis older;
bool kept;
byte now_is;		/* its clock, which goes back with nothing */
byte ahead;		/* so much further it has been */

#define PERIOD(definition) ((definition) == 1 -> bound.every : 3 - bound.every)
/* How many ticks come after time a, up to time b. */
#define TICKS_IN(definition, a, b) ((b) <= (a) -> 0 : (b) / PERIOD(definition) - (a) / PERIOD(definition))
#define LAST_TICK(definition, b) ((b) / PERIOD(definition) * PERIOD(definition))

/* ---- sweepers ---- */

#define LOOKS 1		/* requests */
#define TICK 2
#define RECORDS 3	/* a mutant's second half */
#define PUSHES 4

typedef request {
	unsigned what : 3;	/* 0: none */
	unsigned definition : 2;
	unsigned last : 3;
	unsigned tick : 3;
	unsigned missed : 3;
	unsigned pushes : 1
};
typedef leader {
	unsigned has : 2;	/* its definition */
	unsigned known : 1;	/* Redis has answered on this connection */
	unsigned last : 3;	/* by that answer */
	request asks;
	request late		/* of a connection that was given up */
};
leader at[LEADERS];

hidden request rq;
hidden byte x, y, res;

mtype = { pushed_twice, pushed_early, silently_skipped, two_in_the_queue };

#include "bounds.pml"

inline clear_request(r)
{
	r.what = 0; r.definition = 0; r.last = 0; r.tick = 0; r.missed = 0; r.pushes = 0
}

inline copy_request(to, from)
{
	to.what = from.what; to.definition = from.definition; to.last = from.last; to.tick = from.tick; to.missed = from.missed;
	to.pushes = from.pushes
}

inline copy_redis(to, from)
{
	to.definition = from.definition; to.last = from.last; to.missed = from.missed; to.skipped = from.skipped; to.waits = from.waits;
	to.began = from.began; to.pushes = from.pushes; to.pushed = from.pushed
}

/* ---- tick.lua ---- */

#define NOTHING 0	/* answers */
#define BEGAN 1
#define DONE 2
#define REFUSED 3

#define IS_FAR_AHEAD (is.last > now_is + AHEAD)

/* A record that is far ahead of the clock, or there is none: ticks that the clock shows again are others. */
inline begin()
{
	if
	:: is.definition == 0 || IS_FAR_AHEAD -> x = now_is; is.pushed = is.pushed & ((1 << (now_is + 1)) - 1)
	:: else -> x = (is.last > now_is && !MUTANT(CHANGED_BEGINS_NOW) -> is.last : now_is)
	fi;
	is.definition = rq.definition; is.last = x; is.missed = 0; is.skipped = 0; is.began = x; is.pushes = 0;
	x = 0;
	res = BEGAN
}

inline push()
{
	must(!(is.pushed & (1 << rq.tick)), pushed_twice);
	must(rq.tick <= now_is, pushed_early);
	must(!(bound.alone && is.waits), two_in_the_queue);
	is.pushed = is.pushed | (1 << rq.tick);
	is.pushes++;
	is.waits = bound.alone
}

inline record()
{
	is.last = rq.tick;
	is.missed = is.missed + rq.missed
}

/* a mutant's second half is still to come */
#define HALF_DONE (MUTANT(PUSHES_LATER) && (rq.what == TICK || at[0].asks.what == PUSHES || at[1].asks.what == PUSHES))

/* rq; refuses: Redis refuses the push */
inline execute(refuses)
{
	if
	:: rq.what == RECORDS -> record(); res = DONE
	:: rq.what == PUSHES -> push(); res = DONE
	:: rq.what < RECORDS && (is.definition == 0 || (is.definition != rq.definition && !MUTANT(ANY_DEFINITION)) || IS_FAR_AHEAD) -> begin()
	:: rq.what < RECORDS && !(is.definition == 0 || (is.definition != rq.definition && !MUTANT(ANY_DEFINITION)) || IS_FAR_AHEAD) ->
		if
		:: rq.what == LOOKS || (is.last != rq.last && !MUTANT(ANY_LAST)) || (rq.tick > now_is && !MUTANT(CLOCK_OF_THE_LEADER)) -> res = NOTHING
		:: else ->
			res = DONE;
			if
			:: rq.pushes && bound.alone && is.waits && !MUTANT(LOOKS_NOWHERE) -> record(); is.skipped++
			:: rq.pushes && !(bound.alone && is.waits && !MUTANT(LOOKS_NOWHERE)) && (refuses) ->
				res = REFUSED;
				if
				:: MUTANT(REFUSED_IS_RECORDED) -> record()
				:: else
				fi
			:: rq.pushes && !(bound.alone && is.waits && !MUTANT(LOOKS_NOWHERE)) && !(refuses) ->
				if
				:: MUTANT(NO_RECORD) || MUTANT(RECORDS_LATER) -> push()
				:: MUTANT(PUSHES_LATER) -> record()
				:: else -> record(); push()
				fi
			:: else -> record()
			fi
		fi
	fi;
	printf("-- redis: at %d: request %d of definition %d, tick %d after %d, missed %d, pushes %d: %d. Last is %d\n", now_is, rq.what, rq.definition,
		rq.tick, rq.last, rq.missed, rq.pushes, res, is.last);
	y = TICKS_IN(is.definition, is.began, is.last);
	must(is.definition == 0 || MUTANT(RECORDS_LATER) || MUTANT(NO_RECORD) || HALF_DONE || is.pushes + is.missed + is.skipped == y, silently_skipped);
	y = 0
}

/* ---- a sweeper that leads, or believes so ---- */

#define MAY_CHOOSE(t) ((t) <= now_is + ahead && (t) < TIMES)

/* ask_schedule(): by what it takes for the time, which it knows from the last answer */
inline ask(l, time)
{
	at[l].asks.definition = at[l].has;
	y = TICKS_IN(at[l].has, at[l].last, time);
	if
	:: at[l].known && y > 0 ->
		at[l].asks.what = TICK;
		at[l].asks.tick = LAST_TICK(at[l].has, time);
		at[l].asks.last = at[l].last;
		at[l].asks.pushes = bound.one || (time) == LAST_TICK(at[l].has, time);
		at[l].asks.missed = (MUTANT(MISSED_IS_FORGOTTEN) -> 0 : y - at[l].asks.pushes)
	:: else -> at[l].asks.what = LOOKS
	fi;
	y = 0
}

inline take_answer(l)
{
	if
	:: res == REFUSED -> at[l].known = 0; clear_request(at[l].asks)
	:: res == DONE && at[l].asks.what == TICK && at[l].asks.pushes && MUTANT(RECORDS_LATER) -> at[l].asks.what = RECORDS
	:: res == DONE && at[l].asks.what == TICK && at[l].asks.pushes && MUTANT(PUSHES_LATER) -> at[l].asks.what = PUSHES
	:: else -> at[l].known = 1; at[l].last = is.last; clear_request(at[l].asks)
	fi
}

#define LOST 0		/* never executed; executed, without an answer; executed later */
#define UNANSWERED 1
#define LATER 2

proctype Leader(byte l)
{
	byte k;

end:	do
	:: atomic { at[l].asks.what == 0 && at[l].has ->
		if
		:: MAY_CHOOSE(0) -> k = 0
		:: MAY_CHOOSE(1) -> k = 1
		:: MAY_CHOOSE(2) -> k = 2
		:: MAY_CHOOSE(3) -> k = 3
		:: MAY_CHOOSE(4) -> k = 4
		fi;
		d_step { ask(l, k); k = 0 } }
	:: atomic { at[l].asks.what != 0 ->
		if
		:: k = 0
		:: refusals > 0 && at[l].asks.pushes -> k = 1
		fi;
		d_step { copy_request(rq, at[l].asks); execute(k); refusals = refusals - (res == REFUSED); take_answer(l); clear_request(rq); res = 0; k = 0 } }
	:: atomic { at[l].asks.what != 0 && cuts > 0 ->
		if
		:: k = LOST
		:: k = UNANSWERED
		:: at[l].late.what == 0 -> k = LATER
		fi;
		d_step {
			cuts--;
			printf("-- leader %d: is cut off, 0 lost, 1 unanswered, 2 later: %d\n", l, k);
			if
			:: k == UNANSWERED -> copy_request(rq, at[l].asks); execute(0)
			:: k == LATER -> copy_request(at[l].late, at[l].asks)
			:: else
			fi;
			at[l].known = 0; clear_request(at[l].asks); clear_request(rq); res = 0; k = 0
		} }
	:: d_step { at[l].late.what != 0 -> copy_request(rq, at[l].late); execute(0); clear_request(at[l].late); clear_request(rq); res = 0 }
	/* another configuration: the task forgets its records */
	:: d_step { changes > 0 && at[l].has -> changes--; at[l].has = 3 - at[l].has; at[l].known = 0; at[l].last = 0;
		printf("-- leader %d: has definition %d\n", l, at[l].has);
		clear_request(at[l].asks) }
	od
}

proctype World()
{
end:	do
	:: d_step { now_is < TIMES - 1 -> now_is++; ahead = (ahead > 0 -> ahead - 1 : 0); printf("-- redis: it is %d\n", now_is) }
	/* the clock is set back: sweepers believe in the old one for a while */
	:: d_step { backs > 0 && now_is > 0 -> backs--; now_is--; ahead++; printf("-- redis: it is %d again\n", now_is) }
	:: d_step { backs > 0 && now_is > 1 -> backs--; now_is = now_is - 2; ahead = ahead + 2; printf("-- redis: it is %d again\n", now_is) }
	:: d_step { bound.alone && is.waits -> is.waits = 0 }
	:: d_step { rollbacks > 0 && !kept -> rollbacks--; kept = 1; copy_redis(older, is) }
	:: d_step { kept -> printf("-- redis: returns to the copy\n"); copy_redis(is, older); kept = 0;
		older.definition = 0; older.last = 0; older.missed = 0; older.skipped = 0; older.waits = 0; older.began = 0; older.pushes = 0; older.pushed = 0 }
	od
}

init {
	d_step {
		c_code {
			now.bound.mutant = of_environment("mutant", 0);
			now.bound.every = of_environment("every", 1);
			now.bound.one = of_environment("one", 1);
			now.bound.alone = of_environment("alone", 0);
			now.cuts = of_environment("cuts", 0);
			now.rollbacks = of_environment("rollbacks", 0);
			now.changes = of_environment("changes", 0);
			now.backs = of_environment("backs", 0);
			now.refusals = of_environment("refusals", 0);
		};
		at[0].has = 1; at[1].has = 1
	};
	atomic { run Leader(0); run Leader(1); run World() }
}
