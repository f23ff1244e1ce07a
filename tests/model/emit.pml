/*
 * Emitted messages as a model: what a handler emits is there if its message was acknowledged, once, and only then.
 * docs/model.md says what it shows.
 *	worker/emit.c worker/mover.c worker/adopt.c common/queue/scripts/{emit,emit_list,acknowledge,retry,renew,fence,return}.lua
 * A tray may have a message that emits and one that does not: the first leaves alone, the other with the tray. Each emits
 * two messages to a list, and a delayed one. No messages are equal; docs/model.md says where that is searched.
 */

#define WORKERS 2
#define MESSAGES 2
#define GENERATIONS 4	/* names of a worker, one after the other */
#define NAMES (WORKERS * GENERATIONS)
#define NAME(w, g) ((w) * GENERATIONS + (g))
#define OWNER(i) ((i) / GENERATIONS)
#define NONE NAMES

typedef bounds {
	unsigned mutant : 5;
	unsigned emits : 2	/* so many of the messages */
};
bounds bound;

#define EMITS(m) ((m) < bound.emits)

#define BEFORE_THE_ACKNOWLEDGEMENT 1
#define UNDOES_ONE 2
#define EMITS_LATER 3
#define IS_NOT_COUNTED 4
#define REFUSED_STAYS 5
#define REFUSED_IS_DONE 6
#define FAILED_EMITS 7
#define STAYS_WITHOUT_CLAIM 8

/* How often each may happen still. */
byte crashes, cuts, lapses, fails, refusals, rollbacks;

/* ---- Redis ---- */

#define INGRESS 0
#define DONE 1
#define TRAY(i) (2 + (i))
#define RESCUE(i) (2 + NAMES + (i))

typedef message {
	unsigned place : 5;
	unsigned list : 3;	/* so many of what it emits are in the list, and among the delayed messages */
	unsigned later : 2
};
typedef name {
	unsigned lease : 1;
	unsigned registered : 1;
	unsigned moved : 2	/* how many left the tray alive, or with what they emitted */
};
typedef redis {
	message msg[MESSAGES];
	name at[NAMES]
};
redis is;
redis older;
bool kept;
bool did[MESSAGES];	/* some handler succeeded with it */

#define WHOLE(m) (is.msg[m].list == 2 && is.msg[m].later == 1)
#define SOME(m) (is.msg[m].list > 0 || is.msg[m].later > 0)
#define ALL_AT(where) (is.msg[0].place == (where) && is.msg[1].place == (where))
#define ANY_AT(where) (is.msg[0].place == (where) || is.msg[1].place == (where))

/* ---- workers ---- */

#define FREE 0		/* items */
#define RUNNING 1
#define SUCCEEDED 2	/* it leaves with its tray */
#define EMITTING 3
#define RETRYING 4
#define LOST 5		/* it runs, and is not in the tray any more */

typedef worker {
	unsigned alive : 1;
	unsigned up : 1;	/* connected, its name confirmed, its tray read */
	unsigned confirmed : 1;	/* its name was, on some connection */
	unsigned fresh : 1;	/* by its own clock the lease cannot have run out */
	unsigned own : 2;	/* its name */
	unsigned previous : 4;	/* its last confirmed name, until this one is; NONE: none */
	unsigned moved : 2;	/* by the answers */
	unsigned deleting : 1;	/* the acknowledgement of the tray was sent */
	byte item[MESSAGES];
	bool sent[MESSAGES]	/* its move was */
};
worker wk[WORKERS];

#define EMIT 0
#define RETRY 1
#define ACKNOWLEDGE 2
#define PUSH 3		/* a mutant's second half */

/* What was sent and is not done yet: command, message, count. Of a connection that was given up the name is kept, too. */
chan wire[WORKERS] = [3] of { byte, byte, byte };
chan late[WORKERS] = [3] of { byte, byte, byte, byte };

#define NOW(w) NAME(w, wk[w].own)
#define IN_ITEMS(w, s) (wk[w].item[0] == (s) || wk[w].item[1] == (s))
#define IDLE(w) (wk[w].item[0] == FREE && wk[w].item[1] == FREE)
#define UNDER_WAY (len(wire[0]) + len(wire[1]) + len(late[0]) + len(late[1]) > 0)

hidden byte x, z, res;
hidden byte who, op, its, count;	/* the command that is executed: name, what, its message */

mtype = { emitted_twice, emitted_unacknowledged, acknowledged_unemitted, acknowledged_not_done, left_over };

#include "bounds.pml"

/* ---- scripts ---- */

#define GONE 0		/* answers */
#define MOVED 1
#define WAITS 2		/* Redis refuses all of it for now */
#define REFUSED 3	/* the target */
#define CANNOT_TELL 4

inline count_move(m)
{
	is.at[who].moved = is.at[who].moved + is.at[who].lease;
	res = MOVED
}

inline push_all(m)
{
	is.msg[m].list = is.msg[m].list + 2;
	is.msg[m].later = is.msg[m].later + 1
}

inline undo(m)
{
	is.msg[m].list = is.msg[m].list - (MUTANT(UNDOES_ONE) -> 1 : 2);
	is.msg[m].later = is.msg[m].later - 1
}

#define NOT_AT_ALL 0
#define AS_A_WHOLE 1	/* memory is full, or a right to some key is missing */
#define IN_THE_MIDDLE 2	/* the delayed messages of the target are of another type */
#define AT_THE_END 3	/* the acknowledgement */

/* emit.lua, emit_list.lua. how: what Redis refuses */
inline emit(how)
{
	if
	:: how == AS_A_WHOLE -> res = WAITS
	:: how == IN_THE_MIDDLE ->
		is.msg[its].list = is.msg[its].list + (MUTANT(REFUSED_STAYS) -> 2 : 0);	/* pushed, and undone */
		res = REFUSED;
		if
		:: MUTANT(REFUSED_IS_DONE) && is.msg[its].place == TRAY(who) -> is.msg[its].list = is.msg[its].list + 2; is.msg[its].place = DONE; res = MOVED
		:: else
		fi
	:: how == AT_THE_END && is.msg[its].place == TRAY(who) -> res = WAITS
	:: how == NOT_AT_ALL && is.msg[its].place == TRAY(who) ->
		if
		:: !MUTANT(EMITS_LATER) -> push_all(its)
		:: else
		fi;
		is.msg[its].place = DONE;
		must(did[its], acknowledged_not_done);
		res = MOVED;
		is.at[who].moved = is.at[who].moved + (is.at[who].lease && !MUTANT(IS_NOT_COUNTED))
	:: else ->
		res = GONE;
		if
		:: MUTANT(EMITS_LATER)
		:: MUTANT(BEFORE_THE_ACKNOWLEDGEMENT) -> push_all(its)
		:: else -> push_all(its); undo(its)
		fi
	fi
}

inline retry()
{
	if
	:: is.msg[its].place == TRAY(who) ->
		is.msg[its].place = INGRESS;
		is.at[who].moved = is.at[who].moved + is.at[who].lease;
		res = MOVED;
		if
		:: MUTANT(FAILED_EMITS) && EMITS(its) -> push_all(its)
		:: else
		fi
	:: else -> res = GONE
	fi
}

/* acknowledge.lua: a lease that is gone counts nothing */
inline acknowledge()
{
	if
	:: (is.at[who].lease -> is.at[who].moved : 0) != count -> res = CANNOT_TELL
	:: else ->
		res = MOVED;
		for (x : 0 .. MESSAGES - 1) {
			if
			:: is.msg[x].place == TRAY(who) ->
				is.msg[x].place = DONE;
				must(did[x], acknowledged_not_done)
			:: else
			fi
		}
	fi
}

/* Both or neither, in each state of Redis. */
inline check_all()
{
	for (x : 0 .. MESSAGES - 1) {
		must(is.msg[x].list <= 2 && is.msg[x].later <= 1, emitted_twice);
		must(is.msg[x].place == DONE || !SOME(x), emitted_unacknowledged);
		must(is.msg[x].place != DONE || !EMITS(x) || WHOLE(x) || MUTANT(EMITS_LATER), acknowledged_unemitted)
	}
	x = 0
}

inline perform(how)
{
	if
	:: op == EMIT -> emit(how)
	:: op == RETRY -> retry()
	:: op == ACKNOWLEDGE -> acknowledge()
	:: else -> push_all(its); res = MOVED
	fi;
	printf("-- redis: name %d: %d (emit 0, retry 1, acknowledge 2) of %d, count %d: %d\n", who, op, its, count, res);
	check_all()
}

inline renew_name(i, old)
{
	if
	:: is.at[i].registered -> res = is.at[i].lease
	:: else ->
		is.at[i].registered = 1; is.at[i].lease = 1; is.at[i].moved = 0;
		res = 1;
		if
		:: (old) != NONE && !ANY_AT(RESCUE(old)) ->
			for (x : 0 .. MESSAGES - 1) {
				if
				:: is.msg[x].place == TRAY(old) -> is.msg[x].place = TRAY(i)
				:: else
				fi
			}
		:: else
		fi;
		if
		:: (old) != NONE -> is.at[old].lease = 0; is.at[old].moved = 0
		:: else
		fi
	fi;
	printf("-- redis: renews to name %d in place of %d: %d\n", i, old, res)
}

/* ---- a worker ---- */

/* A connection ends. Of what is under way the first `k` commands arrive later. */
inline let_go(w, k)
{
	z = len(wire[w]);
	for (x : 1 .. z) {
		wire[w]?op, its, count;
		if
		:: x <= (k) -> who = NOW(w); late[w]!who, op, its, count
		:: else
		fi
	}
	wk[w].up = 0; wk[w].deleting = 0; wk[w].moved = 0; wk[w].sent[0] = 0; wk[w].sent[1] = 0;
	who = 0; op = 0; its = 0; count = 0; x = 0
}

inline take_name(w)
{
	if
	:: wk[w].confirmed || (is.at[NOW(w)].registered && !is.at[NOW(w)].lease) ->
		wk[w].previous = (wk[w].confirmed -> NOW(w) : wk[w].previous);
		assert(wk[w].own + 1 < GENERATIONS);
		wk[w].own++;
		wk[w].confirmed = 0
	:: else		/* it was not confirmed: the same again */
	fi
}

/* adopt.c: what is in the tray, and what is not */
inline adopt(w)
{
	for (x : 0 .. MESSAGES - 1) {
		if
		:: is.msg[x].place == TRAY(NOW(w)) -> wk[w].item[x] = (wk[w].item[x] == FREE || wk[w].item[x] == LOST -> RUNNING : wk[w].item[x])
		:: else -> wk[w].item[x] = (wk[w].item[x] == RUNNING || wk[w].item[x] == LOST -> LOST : FREE)
		fi
	}
	x = 0
}

inline answered(w, waits)
{
	if
	:: op == ACKNOWLEDGE && res == CANNOT_TELL -> let_go(w, 0)
	:: op == ACKNOWLEDGE && res != CANNOT_TELL ->
		wk[w].deleting = 0;
		for (x : 0 .. MESSAGES - 1) {
			wk[w].item[x] = (wk[w].item[x] == SUCCEEDED -> FREE : wk[w].item[x])
		}
	:: op != ACKNOWLEDGE && (res == GONE || res == MOVED) ->
		if
		:: op == EMIT && MUTANT(EMITS_LATER) && res == MOVED -> z = 1
		:: else -> z = 0
		fi;
		wk[w].moved = wk[w].moved + (res == MOVED && op != PUSH && !(op == EMIT && MUTANT(IS_NOT_COUNTED)));
		wk[w].item[its] = (op == PUSH -> wk[w].item[its] : FREE);
		wk[w].sent[its] = 0;
		if
		:: z -> wire[w]!PUSH, its, 0
		:: !z && res == GONE && !MUTANT(STAYS_WITHOUT_CLAIM) -> let_go(w, 0)
		:: else
		fi
	:: op != ACKNOWLEDGE && (res == WAITS || res == REFUSED) ->
		wk[w].sent[its] = 0;
		wk[w].item[its] = (res == REFUSED || !(waits) -> RETRYING : EMITTING)
	fi;
	x = 0; z = 0
}

#define MAY_SEND(w, m) (wk[w].up && !wk[w].sent[m] && (wk[w].item[m] == EMITTING || wk[w].item[m] == RETRYING))
#define NEXT_IS_EMIT(w) (wire[w]?[EMIT, 0, 0] || wire[w]?[EMIT, 1, 0])
#define ENDS(w, m) (wk[w].item[m] == RUNNING || wk[w].item[m] == LOST)
#define CHOOSE_KEPT(w, k) \
	if \
	:: k = 0 \
	:: len(late[w]) == 0 && len(wire[w]) > 0 -> k = 1 \
	:: len(late[w]) == 0 && len(wire[w]) > 1 -> k = 2 \
	fi

proctype Worker(byte w)
{
	byte m, k;

end:	do
	:: atomic { wk[w].alive && !wk[w].up && (wk[w].own + 1 < GENERATIONS || !wk[w].confirmed) ->
		if
		:: k = 0
		:: cuts > 0 -> k = 1
		fi;
		d_step {
			take_name(w);
			renew_name(NOW(w), wk[w].previous);
			cuts = cuts - k;
			if
			:: res && !k -> wk[w].up = 1; wk[w].confirmed = 1; wk[w].fresh = 1; wk[w].previous = NONE; adopt(w)
			:: else
			fi;
			k = 0
		} }
	/* fetcher.c: into an empty tray */
	:: atomic { wk[w].up && wk[w].fresh && (wk[w].item[0] == FREE || wk[w].item[0] == LOST) && (wk[w].item[1] == FREE || wk[w].item[1] == LOST) &&
		len(wire[w]) == 0 && ANY_AT(INGRESS) ->
		if
		:: is.msg[0].place == INGRESS -> k = 1
		:: is.msg[1].place == INGRESS -> k = 2
		:: ALL_AT(INGRESS) -> k = 3
		fi;
		d_step {
			for (x : 0 .. MESSAGES - 1) {
				if
				:: k & (1 << x) -> is.msg[x].place = TRAY(NOW(w)); wk[w].item[x] = RUNNING
				:: else
				fi
			}
			printf("-- worker %d: fetches %d (bits) under name %d\n", w, k, NOW(w));
			k = 0; x = 0
		} }
	/* a handler ends */
	:: atomic { ENDS(w, 0) || ENDS(w, 1) ->
		if
		:: ENDS(w, 0) -> m = 0
		:: ENDS(w, 1) -> m = 1
		fi;
		if
		:: k = 0
		:: fails > 0 -> k = 1
		fi;
		d_step {
			fails = fails - k;
			did[m] = did[m] || !k;
			wk[w].item[m] = (wk[w].item[m] == LOST -> FREE : (k -> RETRYING : (EMITS(m) -> EMITTING : SUCCEEDED)));
			printf("-- worker %d: the handler of %d ends: failed %d\n", w, m, k);
			m = 0; k = 0
		} }
	/* mover.c */
	:: d_step { MAY_SEND(w, 0) -> wk[w].sent[0] = 1; wire[w]!(wk[w].item[0] == EMITTING -> EMIT : RETRY), 0, 0 }
	:: d_step { MAY_SEND(w, 1) -> wk[w].sent[1] = 1; wire[w]!(wk[w].item[1] == EMITTING -> EMIT : RETRY), 1, 0 }
	:: d_step { wk[w].up && !wk[w].deleting && IN_ITEMS(w, SUCCEEDED) && !IN_ITEMS(w, RUNNING) && !IN_ITEMS(w, EMITTING) && !IN_ITEMS(w, RETRYING) ->
		wk[w].deleting = 1; wire[w]!ACKNOWLEDGE, 0, wk[w].moved }
	/* session.c: it compares lease and counts, and looks into a tray that should be empty */
	:: d_step { wk[w].up && len(wire[w]) == 0 && (!wk[w].fresh || !is.at[NOW(w)].lease || is.at[NOW(w)].moved != wk[w].moved ||
		(IDLE(w) && ANY_AT(TRAY(NOW(w))))) && wk[w].own + 1 < GENERATIONS -> let_go(w, 0) }

	/* Redis does the next command, and answers */
	:: atomic { wk[w].up && len(wire[w]) > 0 ->
		if
		:: k = NOT_AT_ALL
		:: NEXT_IS_EMIT(w) && refusals > 0 -> k = AS_A_WHOLE
		:: NEXT_IS_EMIT(w) && refusals > 0 -> k = IN_THE_MIDDLE
		:: NEXT_IS_EMIT(w) && refusals > 0 -> k = AT_THE_END
		fi;
		if
		:: m = 1
		:: k == AS_A_WHOLE -> m = 0	/* it was the target: emit_after() */
		fi;
		d_step {
			wire[w]?op, its, count;
			refusals = refusals - (k != NOT_AT_ALL);
			who = NOW(w);
			perform(k);
			answered(w, m);
			who = 0; op = 0; its = 0; count = 0; res = 0; m = 0; k = 0
		} }

	/* what may go wrong */
	:: d_step { wk[w].up && len(wire[w]) > 0 && cuts > 0 ->	/* the answer is lost */
		wire[w]?op, its, count;
		cuts--; who = NOW(w); perform(NOT_AT_ALL); res = 0; printf("-- worker %d: loses the answer\n", w); let_go(w, 0) }
	:: atomic { wk[w].up && cuts > 0 -> CHOOSE_KEPT(w, k);
		d_step { cuts--; printf("-- worker %d: is cut off, %d arrive\n", w, k); let_go(w, k); k = 0 } }
	:: atomic { wk[w].alive && crashes > 0 -> CHOOSE_KEPT(w, k);
		d_step {
			crashes--;
			printf("-- worker %d: dies, %d arrive\n", w, k);
			let_go(w, k);
			wk[w].alive = 0; wk[w].fresh = 0; wk[w].item[0] = FREE; wk[w].item[1] = FREE; k = 0
		} }
	:: d_step { wk[w].alive && wk[w].fresh && lapses > 0 -> lapses--; wk[w].fresh = 0; printf("-- worker %d: its lease is over\n", w) }
	:: d_step { !wk[w].alive && wk[w].own + 1 < GENERATIONS ->
		wk[w].alive = 1; wk[w].previous = NONE; wk[w].confirmed = 0; wk[w].own++ }
	od
}

/* ---- sweepers, networks, and Redis that goes back ---- */

#define HAS(w, i) (wk[w].alive && wk[w].fresh && ((i) == NOW(w) || (i) == wk[w].previous))
#define TAKES(i) (!HAS(OWNER(i), i) && (ANY_AT(TRAY(i)) || is.at[i].lease))

inline move_all(from, to)
{
	for (x : 0 .. MESSAGES - 1) {
		if
		:: is.msg[x].place == (from) -> is.msg[x].place = (to)
		:: else
		fi
	}
	x = 0
}

/* fence.lua; return.lua, one after the other */
#define SWEEP(i) \
	:: d_step { TAKES(i) && !ANY_AT(RESCUE(i)) -> is.at[i].lease = 0; is.at[i].moved = 0; move_all(TRAY(i), RESCUE(i)); printf("-- sweeper: fences %d\n", i) } \
	:: d_step { is.msg[0].place == RESCUE(i) -> is.msg[0].place = INGRESS; printf("-- sweeper: returns 0 of %d\n", i) } \
	:: d_step { is.msg[1].place == RESCUE(i) -> is.msg[1].place = INGRESS; printf("-- sweeper: returns 1 of %d\n", i) }

inline copy_redis(to, from)
{
	for (x : 0 .. MESSAGES - 1) {
		to.msg[x].place = from.msg[x].place; to.msg[x].list = from.msg[x].list; to.msg[x].later = from.msg[x].later
	}
	for (x : 0 .. NAMES - 1) {
		to.at[x].lease = from.at[x].lease; to.at[x].registered = from.at[x].registered; to.at[x].moved = from.at[x].moved
	}
	x = 0
}

proctype World()
{
	byte c;

end:	do
	SWEEP(0) SWEEP(1) SWEEP(2) SWEEP(3) SWEEP(4) SWEEP(5) SWEEP(6) SWEEP(7)
	:: d_step { len(late[0]) > 0 -> late[0]?who, op, its, count; perform(NOT_AT_ALL); who = 0; op = 0; its = 0; count = 0; res = 0 }
	:: d_step { len(late[1]) > 0 -> late[1]?who, op, its, count; perform(NOT_AT_ALL); who = 0; op = 0; its = 0; count = 0; res = 0 }
	:: d_step { rollbacks > 0 && !kept -> rollbacks--; kept = 1; copy_redis(older, is) }
	/* each worker loses its connection, or notices nothing */
	:: atomic { kept ->
		if
		:: c = 0
		:: c = 1
		:: c = 2
		:: c = 3
		fi;
		d_step {
			printf("-- redis: returns to the copy; cut off: %d\n", c);
			copy_redis(is, older);
			kept = 0;
			for (x : 0 .. MESSAGES - 1) {
				older.msg[x].place = 0; older.msg[x].list = 0; older.msg[x].later = 0
			}
			for (x : 0 .. NAMES - 1) {
				older.at[x].lease = 0; older.at[x].registered = 0; older.at[x].moved = 0
			}
			if
			:: (c & 1) && wk[0].up -> let_go(0, 0)
			:: else
			fi;
			if
			:: (c & 2) && wk[1].up -> let_go(1, 0)
			:: else
			fi;
			c = 0
		} }
	:: timeout -> break
	od;
	must(ALL_AT(DONE), left_over);
	must((!EMITS(0) || WHOLE(0)) && (!EMITS(1) || WHOLE(1)), acknowledged_unemitted)
}

init {
	d_step {
		c_code {
			now.bound.mutant = of_environment("mutant", 0);
			now.bound.emits = of_environment("emits", 1);
			now.crashes = of_environment("crashes", 0);
			now.cuts = of_environment("cuts", 0);
			now.lapses = of_environment("lapses", 0);
			now.fails = of_environment("fails", 0);
			now.refusals = of_environment("refusals", 0);
			now.rollbacks = of_environment("rollbacks", 0);
		};
		for (x : 0 .. WORKERS - 1) {
			is.at[NAME(x, 0)].lease = 1; is.at[NAME(x, 0)].registered = 1;
			wk[x].alive = 1; wk[x].up = 1; wk[x].confirmed = 1; wk[x].fresh = 1; wk[x].previous = NONE
		}
		x = 0
	};
	atomic { run Worker(0); run Worker(1); run World() }
}
