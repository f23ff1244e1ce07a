/*
 * Seats (max_in_flight) as a model: never more messages run than there are seats, and a seat of a dead host comes back.
 * docs/model.md says what it shows.
 *	worker/seats.c sweeper/rescue/seats.c common/queue/scripts/{seats,seats_leave,renew,mark_dead,forget}.lua
 * Messages always wait. Of the trays it has nothing.
 */

#define WORKERS 2	/* each on its own host */
#define GENERATIONS 4	/* names of a worker, one after the other; its processes share them */
#define NAMES (WORKERS * GENERATIONS)
#define NAME(w, g) ((w) * GENERATIONS + (g))
#define OWNER(i) ((i) / GENERATIONS)
#define NONE 8

typedef bounds {
	unsigned mutant : 5;
	unsigned limit : 2;
	unsigned window : 2;	/* of handlers */
	unsigned kills : 1	/* fence = "kill" */
};
bounds bound;

#define LIMIT bound.limit
#define WINDOW bound.window
#define KILLS bound.kills

#define ANY_NAME 1
#define LOST_ANSWER_COUNTS 2
#define LEFT_WITH_THE_DEAD 3
#define TRUSTS_NEW_SERVER 4
#define HELD_IS_FORGOTTEN 5
#define NOTHING_IS_SAID 6
#define LETS_RUN 7
#define OLD_NAMES_STAY 8
#define NOBODY_LOOKS_AGAIN 9
#define STAYS_ABOVE_THE_LIMIT 10
#define SAYS_AFTER_THE_NAME 11
#define LEAVES_ITS_SEATS 12
#define TRUSTS_WHAT_RAN 13

/* How often each may happen still. */
byte crashes, cuts, lapses, rollbacks, stops;

/* ---- Redis ---- */

typedef name {
	unsigned lease : 1;
	unsigned registered : 1;
	unsigned died : 1;	/* its registration says so */
	unsigned seats : 2
};
typedef redis {
	name at[NAMES];
	unsigned server : 2;	/* who wrote the hash; 0: there is none */
	unsigned refused : 2	/* 1 + the worker that left the mark */
};
redis is;
redis older;
bool kept;		/* older is a copy */
byte server = 1;	/* which one it is: another one after each start */
bool settled = 1;	/* it has been up for so long that no older server's lease is left */

/* ---- workers ---- */

typedef worker {
	unsigned alive : 1;
	unsigned up : 1;	/* connected */
	unsigned renewed : 1;	/* on this connection: its name was confirmed */
	unsigned said : 1;	/* on this connection: it sent what it has */
	unsigned confirmed : 1;	/* its name was, on some connection */
	unsigned fresh : 1;	/* by its own clock the lease cannot have run out */
	unsigned own : 2;	/* its name */
	unsigned previous : 4;	/* its last confirmed name, until this one is; NONE: none */
	unsigned first : 2;	/* the first name of this process */
	unsigned n : 2;		/* seats it has for certain */
	unsigned asking : 2;	/* requests without an answer */
	unsigned certain : 1;	/* the last answer stands */
	unsigned quiet : 1;	/* Redis gives none */
	unsigned above : 1;	/* its lease ended while messages ran, or more seats are taken than there are: others may have got its own */
	unsigned running : 2;
	unsigned cut_off : 2	/* of these: they run after the end of the lease */
};
worker wk[WORKERS];

/* What was sent and is not done yet: held, wanted. Of a connection that was given up the name is kept, too. */
chan wire[WORKERS] = [2] of { byte, byte };
chan late[WORKERS] = [2] of { byte, byte, byte };

#define NOW(w) NAME(w, wk[w].own)
#define USABLE(w) (wk[w].up && wk[w].said && wk[w].fresh)
#define IN_TIME(w) (wk[w].running - wk[w].cut_off)

hidden byte x, y, z, others, had, res;
hidden byte who, since, holds, wants, flags;	/* of the request that is executed */
hidden byte over;

mtype = { too_many_run, seat_without_owner };

#include "bounds.pml"

/* ---- scripts ---- */

/* seats_stay(): a name that asks for no other number, while nobody waits */
#define FIRST 4	/* of a request: the first since its name was registered */
#define WHOLE 8	/* its worker knows that more are taken than there are */
#define STAYS (wants > 0 && !flags && is.at[who].seats == wants && is.server == server && settled && !is.refused)

/* Of other names; earlier ones of this process end. */
inline read_seats()
{
	others = 0;
	for (y : 0 .. NAMES - 1) {
		if
		:: y == who
		:: y != who && OWNER(y) == OWNER(who) && y >= NAME(OWNER(who), since) && y < who && !MUTANT(OLD_NAMES_STAY) -> is.at[y].seats = 0
		:: else -> others = others + is.at[y].seats
		fi
	}
}

#define NO_LEASE 7
#define UNKNOWN 2	/* it stays: the answer does not tell how many are taken */

/* seats.lua. res: how many the name has */
inline give_seats()
{
	over = 0;
	if
	:: !is.at[who].lease && !MUTANT(ANY_NAME) -> res = NO_LEASE
	:: (is.at[who].lease || MUTANT(ANY_NAME)) && STAYS -> res = wants; over = UNKNOWN
	:: else ->
		had = is.at[who].seats;
		read_seats();
		is.server = server;
		x = (others >= LIMIT -> 0 : LIMIT - others);
		x = (x < wants -> x : wants);
		res = (x > holds || MUTANT(HELD_IS_FORGOTTEN) -> x : holds);
		if
		:: (!settled && !MUTANT(TRUSTS_NEW_SERVER)) || (is.refused && is.refused != 1 + OWNER(who) && had > holds && others + res >= LIMIT) -> res = holds
		:: else
		fi;
		is.at[who].seats = res;
		is.refused = (res == 0 && wants > 0 && settled -> 1 + OWNER(who) : is.refused);
		over = others + res > LIMIT
	fi;
	printf("-- redis: name %d holds %d, wants %d: has %d\n", who, holds, wants, res);
	who = 0; since = 0; holds = 0; wants = 0; flags = 0
}

/* renew.lua. has: what the worker has. res: 0: this name is used up */
inline renew_name(i, old, has)
{
	if
	:: is.at[i].registered -> res = is.at[i].lease
	:: else ->
		is.at[i].registered = 1; is.at[i].lease = 1; is.at[i].died = 0;
		is.at[i].seats = (MUTANT(SAYS_AFTER_THE_NAME) -> 0 : has);
		res = 1;
		if
		:: (old) != NONE -> is.at[old].lease = 0; is.at[old].died = is.at[old].registered
		:: else
		fi
	fi;
	printf("-- redis: renews to name %d in place of %d: %d\n", i, old, res)
}

/* ---- a worker ---- */

/* A connection ends. Of what is under way the first `k` arrive later. */
inline let_go(w, k)
{
	z = len(wire[w]);
	if
	:: (k) > 0 ->
		do
		:: len(late[w]) > 0 -> late[w]?x, x, x	/* as if it had never arrived */
		:: else -> break
		od
	:: else
	fi;
	for (x : 1 .. z) {
		wire[w]?had, others;
		if
		:: x <= (k) -> late[w]!NOW(w), had, others
		:: else
		fi
	}
	wk[w].up = 0; wk[w].renewed = 0; wk[w].said = 0; wk[w].asking = 0; wk[w].certain = 0;
	x = 0
}

inline send(w, to, flag)
{
	x = (wk[w].quiet && !wk[w].above && wk[w].n > wk[w].running -> wk[w].n : wk[w].running);
	x = (x < (to) -> x : (to));
	wire[w]!x, (to) | (flag) | (wk[w].above -> WHOLE : 0);
	wk[w].n = (MUTANT(LOST_ANSWER_COUNTS) -> (to) : x);
	wk[w].asking++;
	wk[w].certain = 0
}

inline answered(w)
{
	wk[w].asking--;
	if
	:: over == UNKNOWN
	:: over != UNKNOWN && settled -> wk[w].above = over && res > 0 && !MUTANT(STAYS_ABOVE_THE_LIMIT)
	:: else -> wk[w].above = wk[w].above && res > 0
	fi;
	if
	:: res == NO_LEASE -> let_go(w, 0)
	:: res != NO_LEASE && wk[w].asking == 0 ->
		wk[w].n = res;
		wk[w].certain = 1;
		wk[w].quiet = !settled
	:: else
	fi
}

inline take_name(w)
{
	if
	:: wk[w].confirmed || !is.at[NOW(w)].lease ->
		wk[w].previous = (wk[w].confirmed -> NOW(w) : wk[w].previous);
		assert(wk[w].own + 1 < GENERATIONS);
		wk[w].own++;
		wk[w].confirmed = 0
	:: else		/* it was not confirmed: the same again */
	fi
}

inline lapse(w)
{
	printf("-- worker %d: its lease is over\n", w);
	wk[w].fresh = 0;
	wk[w].running = (KILLS && !MUTANT(LETS_RUN) -> 0 : wk[w].running);
	wk[w].cut_off = (KILLS -> 0 : wk[w].running);
	wk[w].n = wk[w].running;
	wk[w].above = wk[w].above || (wk[w].running > 0 && !MUTANT(TRUSTS_WHAT_RAN) && !MUTANT(STAYS_ABOVE_THE_LIMIT))
}

#define ROOM(w) (wk[w].own + 1 < GENERATIONS || !wk[w].confirmed)
#define ALL_IN_TIME (IN_TIME(0) + IN_TIME(1))

proctype Worker(byte w)
{
	byte k;

end:	do
	/* session.c: a name, confirmed or not, and its trays */
	:: atomic { wk[w].alive && !wk[w].up && ROOM(w) ->
		if
		:: k = 0
		:: cuts > 0 -> k = 1
		fi;
		d_step {
			take_name(w);
			z = (wk[w].n > wk[w].running -> wk[w].n : wk[w].running);
			renew_name(NOW(w), wk[w].previous, z);
			cuts = cuts - k;
			if
			:: res && !k ->
				wk[w].up = 1; wk[w].renewed = 1; wk[w].confirmed = 1; wk[w].fresh = 1;
				wk[w].previous = NONE;
				wk[w].n = (wk[w].n < wk[w].running -> wk[w].running : wk[w].n)
			:: else
			fi;
			k = 0
		} }
	/* seats_adopted() */
	:: d_step { wk[w].up && wk[w].renewed && !wk[w].said ->
		wk[w].said = 1; wk[w].quiet = 1;
		if
		:: MUTANT(NOTHING_IS_SAID) -> wk[w].n = wk[w].running; wk[w].quiet = 0
		:: else -> send(w, wk[w].n, FIRST)
		fi }
	/* seats_ask() */
	:: atomic { USABLE(w) && wk[w].asking == 0 && wk[w].running < WINDOW ->
		if
		:: k = wk[w].running + 1
		:: wk[w].running + 2 <= WINDOW -> k = wk[w].running + 2
		fi;
		d_step { send(w, k, 0); k = 0 } }
	/* seats_give_back() */
	:: d_step { USABLE(w) && (wk[w].n > wk[w].running || wk[w].asking > 0) && wk[w].asking < 2 -> send(w, wk[w].running, 0) }
	/* a message starts, and ends */
	:: d_step { USABLE(w) && wk[w].asking == 0 && wk[w].certain && !wk[w].above && wk[w].n > wk[w].running && wk[w].running < WINDOW ->
		wk[w].running++;
		printf("-- worker %d: starts\n", w);
		must(ALL_IN_TIME <= LIMIT, too_many_run) }
	:: d_step { wk[w].running > wk[w].cut_off -> wk[w].running-- }
	:: d_step { wk[w].cut_off > 0 -> wk[w].running--; wk[w].cut_off-- }

	/* Redis does the next command, and answers; or the answer is lost */
	:: d_step { wk[w].up && len(wire[w]) > 0 ->
		wire[w]?y, z;
		who = NOW(w); since = wk[w].first; holds = y; wants = z & 3; flags = z & (FIRST | WHOLE);
		give_seats();
		answered(w) }
	:: atomic { wk[w].up && cuts > 0 ->
		if
		:: k = 0
		:: len(wire[w]) > 0 -> k = 1
		:: len(wire[w]) > 1 -> k = 2
		fi;
		d_step { cuts--; printf("-- worker %d: is cut off, %d arrive\n", w, k); let_go(w, k); k = 0 } }

	/* the lease ends by its own clock: it stood still; or an older server gave it, and none of this one has come since */
	:: atomic { wk[w].alive && wk[w].fresh && (lapses > 0 || (!settled && !wk[w].renewed)) ->
		if
		:: k = 0
		:: len(wire[w]) > 0 -> k = 1
		fi;
		d_step { lapses = lapses - (settled || wk[w].renewed); lapse(w); let_go(w, k); k = 0 } }

	/* it dies with its handlers; its slot gets another process */
	:: atomic { wk[w].alive && crashes > 0 ->
		if
		:: k = 0
		:: len(wire[w]) > 0 -> k = 1
		fi;
		d_step {
			crashes--;
			printf("-- worker %d: dies, %d arrive\n", w, k);
			let_go(w, k);
			wk[w].alive = 0; wk[w].fresh = 0; wk[w].running = 0; wk[w].cut_off = 0; wk[w].n = 0; wk[w].quiet = 0; wk[w].above = 0; k = 0
		} }
	/* deregister.lua, behind what is under way or before */
	:: d_step { USABLE(w) && wk[w].running == 0 && stops > 0 ->
		stops--;
		printf("-- worker %d: leaves name %d\n", w, NOW(w));
		is.at[NOW(w)].lease = 0; is.at[NOW(w)].registered = 0; is.at[NOW(w)].died = 0;
		is.at[NOW(w)].seats = (MUTANT(LEAVES_ITS_SEATS) -> is.at[NOW(w)].seats : 0);
		let_go(w, len(wire[w]));
		wk[w].alive = 0; wk[w].fresh = 0; wk[w].n = 0; wk[w].quiet = 0; wk[w].above = 0 }
	:: d_step { !wk[w].alive && wk[w].own + 1 < GENERATIONS ->
		wk[w].alive = 1; wk[w].previous = NONE; wk[w].confirmed = 0; wk[w].own++; wk[w].first = wk[w].own }
	od
}

/* ---- sweepers, networks, and Redis that goes back ---- */

/* Reported, or its lease has run out: neither happens to a name of a living worker in time. */
#define HAS(w, i) (wk[w].alive && wk[w].fresh && ((i) == NOW(w) || (i) == wk[w].previous))
#define GONE(i) (is.at[i].registered && !is.at[i].died && !HAS(OWNER(i), i))
/* The process of a name lives under a later one. */
#define LATER(i, g) (NAME(OWNER(i), g) > (i) && is.at[NAME(OWNER(i), g)].registered && !is.at[NAME(OWNER(i), g)].died && \
	((i) >= NAME(OWNER(i), wk[OWNER(i)].first) || (g) < wk[OWNER(i)].first))
#define LIVES_ON(i) (LATER(i, 1) || LATER(i, 2) || LATER(i, 3))
/* A lease and 10 s after its death. */
#define LONG_DEAD(i) (is.at[i].registered && is.at[i].died && \
	!(wk[OWNER(i)].alive && wk[OWNER(i)].fresh && (i) >= NAME(OWNER(i), wk[OWNER(i)].first) && !wk[OWNER(i)].said))
#define FREES(i) (is.at[i].seats > 0 && LONG_DEAD(i) && !LIVES_ON(i) && !MUTANT(NOBODY_LOOKS_AGAIN) && !MUTANT(LEFT_WITH_THE_DEAD))

#define QUIET(w) ((!wk[w].alive || (USABLE(w) && wk[w].asking == 0 && wk[w].certain)) && len(late[w]) == 0)
#define FOREIGN(i) (is.at[i].seats > 0 && !((i) == NOW(OWNER(i)) && wk[OWNER(i)].alive && wk[OWNER(i)].n == is.at[i].seats))
#define RENEWED_HERE(w) (!wk[w].alive || !wk[w].fresh || wk[w].renewed)

inline copy_all(to, from)
{
	for (x : 0 .. NAMES - 1) {
		to.at[x].lease = from.at[x].lease; to.at[x].registered = from.at[x].registered; to.at[x].died = from.at[x].died;
		to.at[x].seats = from.at[x].seats
	}
	to.server = from.server; to.refused = from.refused;
	x = 0
}

inline forget_copy()
{
	kept = 0;
	for (x : 0 .. NAMES - 1) {
		older.at[x].lease = 0; older.at[x].registered = 0; older.at[x].died = 0; older.at[x].seats = 0
	}
	older.server = 0; older.refused = 0;
	x = 0
}
#define CLEAN(i) (!GONE(i) && !FREES(i))

/* A rescue: fence.lua, later mark_dead.lua. The task seats; forget.lua. */
#define SWEEP(i) \
	:: d_step { GONE(i) && is.at[i].lease -> is.at[i].lease = 0; printf("-- sweeper: fences %d\n", i) } \
	:: d_step { GONE(i) && !is.at[i].lease -> \
		is.at[i].died = 1; is.at[i].seats = (MUTANT(LEFT_WITH_THE_DEAD) -> is.at[i].seats : 0); printf("-- sweeper: marks %d dead\n", i) } \
	:: d_step { FREES(i) -> is.at[i].seats = 0; printf("-- sweeper: frees the seats of %d\n", i) } \
	:: d_step { LONG_DEAD(i) && !LIVES_ON(i) -> \
		is.at[i].seats = (MUTANT(LEFT_WITH_THE_DEAD) -> is.at[i].seats : 0); is.at[i].registered = 0; is.at[i].died = 0 }

#define ARRIVES(w) \
	:: d_step { len(late[w]) > 0 -> \
		late[w]?x, y, z; \
		who = x; holds = y; wants = z & 3; flags = z & (FIRST | WHOLE); \
		since = (who >= NAME(w, wk[w].first) -> wk[w].first : who - NAME(w, 0)); \
		give_seats() }

proctype World()
{
end:	do
	SWEEP(0) SWEEP(1) SWEEP(2) SWEEP(3) SWEEP(4) SWEEP(5) SWEEP(6) SWEEP(7)
	ARRIVES(0) ARRIVES(1)
	:: d_step { is.refused -> is.refused = 0 }
	:: d_step { !settled && RENEWED_HERE(0) && RENEWED_HERE(1) -> settled = 1; printf("-- redis: the quiet time is over\n") }

	/* a copy of Redis is made, and another server starts from it at any later time: all connections end */
	:: d_step { rollbacks > 0 && !kept -> rollbacks--; kept = 1; copy_all(older, is) }
	:: d_step { kept ->
		printf("-- redis: returns to the copy\n");
		copy_all(is, older);
		forget_copy();
		server++;
		settled = 0;
		let_go(0, 0);
		let_go(1, 0);
		do
		:: len(late[0]) > 0 -> late[0]?y, y, y
		:: len(late[1]) > 0 -> late[1]?y, y, y
		:: else -> break
		od;
		x = 0 }

	/* nothing is under way, and each name that is gone was rescued: each seat has its owner */
	:: d_step { QUIET(0) && QUIET(1) && settled && CLEAN(0) && CLEAN(1) && CLEAN(2) && CLEAN(3) && CLEAN(4) && CLEAN(5) && CLEAN(6) && CLEAN(7) &&
		(FOREIGN(0) || FOREIGN(1) || FOREIGN(2) || FOREIGN(3) || FOREIGN(4) || FOREIGN(5) || FOREIGN(6) || FOREIGN(7)) ->
		must(false, seat_without_owner) }
	od
}

init {
	d_step {
		c_code {
			now.bound.mutant = of_environment("mutant", 0);
			now.bound.limit = of_environment("limit", 1);
			now.bound.window = of_environment("window", 1);
			now.bound.kills = of_environment("kills", 0);
			now.crashes = of_environment("crashes", 0);
			now.cuts = of_environment("cuts", 0);
			now.lapses = of_environment("lapses", 0);
			now.rollbacks = of_environment("rollbacks", 0);
			now.stops = of_environment("stops", 0);
		};
		for (x : 0 .. WORKERS - 1) {
			is.at[NAME(x, 0)].lease = 1; is.at[NAME(x, 0)].registered = 1;
			wk[x].alive = 1; wk[x].up = 1; wk[x].renewed = 1; wk[x].said = 1; wk[x].confirmed = 1; wk[x].fresh = 1;
			wk[x].previous = NONE
		}
		x = 0
	};
	atomic { run Worker(0); run Worker(1); run World() }
}
