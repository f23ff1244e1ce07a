/*
 * Redis: where each message lies, who is registered, and each command or script as one step. A message is in
 * one place by construction; the step that would make two of it, or none, asserts that it does not.
 *	common/scripts/*.lua common/queue_moves.c
 */

/* ---- messages ---- */

#define MESSAGES 3	/* 0 and 1 are equal, byte for byte, until one is wrapped; 2 is another */

#define NOWHERE 0	/* not pushed */
#define INGRESS 1
#define DELAYED 2
#define ESCAPE 3
#define DONE 4		/* acknowledged */
#define LIMBO 5		/* in no list: only a mutant puts it there */
#define TRAY(i, k) (8 + 4 * (MUTANT(SHARED_LIST) -> 0 : (i)) + (k))
#define RESCUE(i) (8 + 4 * (i) + 3)

/* What its wrapper says. 0: it has none, so that its twin is the same bytes. */
#define ATTEMPT 1
#define REDELIVERED 2
#define SOLO 4
#define CRASHED 8
#define ONE_OUTAGE 16	/* above the flags it counts the outages that charged nobody */
#define OUTAGES_OF(wrapper) ((wrapper) / ONE_OUTAGE)
#define IS_SOLO(wrapper) (((wrapper) & (SOLO | CRASHED)) != 0)

typedef message {
	unsigned place : 5;
	unsigned says : 6;
	unsigned nonce : 3;	/* of the retry that wrapped it, as long as that may be sent again; 0: of no matter */
	/* for the properties */
	unsigned started : 1;	/* unflagged, and that run is not charged as an attempt */
	unsigned succeeded : 1;	/* for the owner in whose tray it lies */
	unsigned innocent : 1;	/* when its owner crashed the handler of another was running */
	unsigned running : 1;	/* with fence = "kill": some handler has it */
	int did[2]	/* with rollbacks: with which wrappers a handler succeeded, one bit each */
};
message msg[MESSAGES];

#define AT(m, list) (msg[m].place == (list))
#define DID(m, wrapper) ((msg[m].did[(wrapper) >> 5] >> ((wrapper) & 31)) & 1)
#define HOW_MANY_AT(list) (AT(0, list) + AT(1, list) + AT(2, list))
#define SOME_AT(list) (AT(0, list) || AT(1, list) || AT(2, list))
#define LOWEST_AT(list) (AT(0, list) -> 0 : (AT(1, list) -> 1 : 2))
#define LIES(m, i) (msg[m].place >= TRAY(i, 0) && msg[m].place <= TRAY(i, 2))
#define LIES_WITH(m, w) (LIES(m, w) || (wk[w].previous != NOBODY && LIES(m, wk[w].previous)))
/* One that was done before Redis went back may lie in a tray again: it is deleted with the next that is done there. */
#define ENDED(m) (AT(m, DONE) || AT(m, ESCAPE) || (returned && msg[m].succeeded && msg[m].place >= TRAY(0, 0)))
#define ALL_ENDED (ENDED(0) && ENDED(1) && ENDED(2))
/* with pool: there is something to ask for, now or later */
#define SOME_LEFT(w) (!(ENDED(0) || LIES(0, w)) || !(ENDED(1) || LIES(1, w)) || !(ENDED(2) || LIES(2, w)))
#define TRAYS_HOLD(i) (LIES(0, i) + LIES(1, i) + LIES(2, i))

/* ---- incarnations ---- */

#define NOBODY 7

/*
 * The first ones are the names that the workers have now, the others those they had before. When a worker takes another
 * name its old one is moved there (move_name): so what differs only by who was called what is one state.
 */
typedef incarnation {
	unsigned used : 1;
	unsigned lease : 1;
	unsigned registered : 1;	/* in transit:Q:workers */
	unsigned died : 1;		/* died_at */
	unsigned size : 2;		/* the field INC:rescue */
	unsigned stopping : 1;		/* its registration says that its worker was ordered to stop */
	unsigned tried : 2;		/* its registration names the message on trial: 1 + its number; 0: none */
	/* what the sweeper knows */
	unsigned dead : 2;		/* the master has reported it */
	unsigned rescue : 2;	/* it is being rescued */
	unsigned ordered : 1;	/* for the properties: its worker died after an order, and the master or Redis knows */
	unsigned page : 3;	/* a mutant's: what it has read of the trays */
	byte moved[3]		/* in its lease: how many left each tray alive */
};
incarnation inc[INCARNATIONS];

#define REPORTED 1	/* dead */
#define BLAMELESS 2	/* dead: it said so itself, exit status CHILD_EXIT_UNSETTLED, or it was ordered to go */
#define VANISHED 3	/* dead: with its whole supervisor */
#define UNCHARGED 1	/* rescue */
#define CHARGED 2
#define OUTAGE 3	/* charged if it was on trial */

/* ---- an earlier state ---- */

/*
 * What Redis held when a copy of it was made. Names are moved in it as they are in the present (move_name), and none that it
 * uses is used again, so that a number means the same in both.
 */
typedef kept_message {
	unsigned place : 5;
	unsigned says : 6;
	unsigned nonce : 3
};
typedef kept_incarnation {
	unsigned lease : 1;
	unsigned registered : 1;
	unsigned died : 1;
	unsigned size : 2;
	unsigned stopping : 1;
	unsigned tried : 2;
	byte moved[3]
};
typedef copy {
	unsigned is : 1;
	kept_message msg[MESSAGES];
	kept_incarnation inc[INCARNATIONS]
};
copy older;
bool returned;	/* Redis has returned to an earlier state: what can only be true without that is not asked for any more */

#define KEPT_IN(m, i) (older.msg[m].place >= TRAY(i, 0) && older.msg[m].place <= RESCUE(i))
#define IS_KEPT(i) (older.is && (older.inc[i].registered || KEPT_IN(0, i) || KEPT_IN(1, i) || KEPT_IN(2, i)))

inline keep()
{
	printf("-- redis: a copy is made\n");
	older.is = 1;
	for (x : 0 .. MESSAGES - 1) {
		a = (msg[x].place - TRAY(0, 0)) / 4;	/* in whose tray or rescue list it lies, if in any */
		must(msg[x].place < TRAY(0, 0) || inc[a].registered, kept_unregistered);
		older.msg[x].place = msg[x].place; older.msg[x].says = msg[x].says; older.msg[x].nonce = msg[x].nonce
	}
	for (x : 0 .. INCARNATIONS - 1) {
		older.inc[x].lease = inc[x].lease; older.inc[x].registered = inc[x].registered; older.inc[x].died = inc[x].died;
		older.inc[x].size = inc[x].size; older.inc[x].stopping = inc[x].stopping; older.inc[x].tried = inc[x].tried;
		for (y : 0 .. 2) {
			older.inc[x].moved[y] = inc[x].moved[y]
		}
	}
	x = 0; a = 0
}

inline forget_copy()
{
	older.is = 0;
	for (x : 0 .. MESSAGES - 1) {
		older.msg[x].place = 0; older.msg[x].says = 0; older.msg[x].nonce = 0
	}
	for (x : 0 .. INCARNATIONS - 1) {
		forget_kept(x)
	}
}

inline forget_kept(i)
{
	older.inc[i].lease = 0; older.inc[i].registered = 0; older.inc[i].died = 0; older.inc[i].size = 0;
	older.inc[i].stopping = 0; older.inc[i].tried = 0;
	for (y : 0 .. 2) {
		older.inc[i].moved[y] = 0
	}
}

/* What succeeded as it comes back may be deleted; nothing else may. */
inline go_back()
{
	printf("-- redis: returns to the copy\n");
	for (x : 0 .. MESSAGES - 1) {
		msg[x].succeeded = DID(x, older.msg[x].says) && older.msg[x].place >= TRAY(0, 0);
		msg[x].place = older.msg[x].place; msg[x].says = older.msg[x].says; msg[x].nonce = older.msg[x].nonce;
		msg[x].started = 0; msg[x].innocent = 0
	}
	for (x : 0 .. INCARNATIONS - 1) {
		inc[x].lease = older.inc[x].lease; inc[x].registered = older.inc[x].registered; inc[x].died = older.inc[x].died;
		inc[x].size = older.inc[x].size; inc[x].stopping = older.inc[x].stopping; inc[x].tried = older.inc[x].tried;
		for (y : 0 .. 2) {
			inc[x].moved[y] = older.inc[x].moved[y]
		}
	}
	returned = 1;
	forget_copy();
	tidy();
	x = 0; y = 0
}

/* ---- connections ---- */

/*
 * What was sent and is not done yet, in its order. The answer comes with the step: nobody but the worker could
 * see whether it has arrived. An answer that is lost is a connection that was cut before the step.
 */
#define C_DEL 0
#define C_FETCH 1
#define C_RENEW 2
#define C_LEAVE 3
#define C_LREM 4	/* from here on: the move of one message */
#define C_RETRY 5
#define C_ESCAPE 6
#define C_BACK 7	/* as it was */
#define C_BACK_REDELIVERED 8
#define C_BACK_SOLO 9
#define C_PUSH_ESCAPE 10	/* the second half of a mutant's escape */
#define C_STOPPING 11	/* annotate.lua */
#define C_TRIAL 12	/* the same */
#define IS_MOVE(command) (OP(command) >= C_LREM && OP(command) < C_PUSH_ESCAPE)

#define COMMAND(op, k, j) ((op) << 3 | (k) << 1 | (j))
#define OP(command) ((command) >> 3)
#define TRAY_OF(command) (((command) >> 1) & 3)
#define ITEM_OF(command) ((command) & 1)
#define BYTES(m, raw, nonce) ((m) | (raw) << 2 | (nonce) << 3)

/* The first ones are those of the workers, the others were given up, and are still under way. */
chan wire[WORKERS + LATE] = [9] of { byte, byte };
typedef link {
	unsigned name : 3;	/* whose trays its commands name */
	unsigned instead : 3	/* whose place its RENEW takes; NOBODY: nobody's */
};
link late[LATE];

/* ---- for use within one step: no part of a state ---- */

hidden byte x, y, z, n, a, b, e, m, k1, res, runs;
hidden byte taken[MESSAGES];

/* ---- what must be true ---- */

mtype = { lost_removed_from_delayed, lost_merged_in_delayed, lost_overwritten, lost_never_pushed, acknowledged_not_done,
	returned_twice, somebody_else_wrote, claim_lost_unfenced, taken_with_lease, runs_again_untold, runs_twice_at_once,
	innocent_charged, charged_at_stop, two_charged_by_one_outage, kept_unregistered, left_over };

/* ---- steps ---- */

/* x: which message LREM removes, NOBODY: none. Of these bytes: itself, or its twin as long as both are raw. */
inline lrem(list, which, raw)
{
	if
	:: AT(which, list) && (raw) == (msg[which].says == 0) -> x = which
	:: else ->
		if
		:: (raw) && (which) < 2 && AT(1 - (which), list) && msg[1 - (which)].says == 0 -> x = 1 - (which)
		:: else -> x = NOBODY
		fi
	fi
}

/* retry.lua, of x. Only the same retry, sent twice, wraps with the same nonce. */
inline retry(stamp)
{
	y = NOBODY;
	for (z : 0 .. MESSAGES - 1) {
		if
		:: AT(z, DELAYED) && msg[z].nonce == (stamp) -> y = z
		:: else
		fi
	}
	if
	:: x == NOBODY && y != NOBODY && MUTANT(UNDO_ALWAYS) -> must(false, lost_removed_from_delayed)
	:: x != NOBODY && y != NOBODY -> must(false, lost_merged_in_delayed)
	:: x != NOBODY && y == NOBODY ->
		msg[x].place = DELAYED;
		msg[x].says = msg[x].says | ATTEMPT;
		msg[x].nonce = stamp;
		msg[x].started = 0;
		msg[x].succeeded = 0
	:: else
	fi
}

/* Whatever was true of it is of no matter any more. */
inline end_message(which, where)
{
	msg[which].place = (POOL && (where) == ESCAPE -> DONE : (where));
	msg[which].says = 0; msg[which].nonce = 0; msg[which].started = 0; msg[which].succeeded = 0; msg[which].innocent = 0;
	msg[which].running = 0
}

inline acknowledge(which)
{
	must(msg[which].succeeded || (returned && DID(which, msg[which].says)), acknowledged_not_done);
	end_message(which, DONE)
}

/* From now on every handler is told that it may have run before. */
inline flag(which)
{
	msg[which].says = msg[which].says | REDELIVERED;
	msg[which].started = 0
}

/* retry.lua, escape.lua, hand_back.lua, LREM. */
inline move_one(list, op, bytes)
{
	lrem(list, (bytes) & 3, ((bytes) >> 2) & 1);
	res = (x != NOBODY);
	if
	:: (op) == C_RETRY -> retry((bytes) >> 3)
	:: (op) == C_LREM && x != NOBODY -> acknowledge(x)
	:: (op) == C_ESCAPE && x != NOBODY -> end_message(x, (MUTANT(REMOVE_FIRST) -> LIMBO : ESCAPE))
	:: (op) >= C_BACK && x != NOBODY ->
		msg[x].place = INGRESS;
		msg[x].succeeded = 0;
		if
		:: (op) == C_BACK_SOLO -> flag(x); msg[x].says = msg[x].says | SOLO
		:: (op) == C_BACK_REDELIVERED -> flag(x)
		:: else -> must(!(POOL && msg[x].started), runs_again_untold)
		fi
	:: else
	fi
}

inline del(list)
{
	res = 0;
	for (x : 0 .. MESSAGES - 1) {
		if
		:: AT(x, list) -> acknowledge(x); res++
		:: else
		fi
	}
}

/* RENAME: what lies there is overwritten. */
inline rename(from, to)
{
	if
	:: SOME_AT(from) ->
		for (x : 0 .. MESSAGES - 1) {
			if
			:: AT(x, to) -> must(false, lost_overwritten)
			:: AT(x, from) -> msg[x].place = to
			:: else
			fi
		}
	:: else
	fi
}

/* renew.lua, whose answers are one less; res: 0: this name is used up. */
inline renew(new, old)
{
	if
	:: inc[new].registered && !MUTANT(RENAMES_AGAIN) && !(MUTANT(ONLY_WHERE_EMPTY) && inc[new].lease) -> res = inc[new].lease
	:: else ->
		inc[new].registered = 1;
		inc[new].died = 0;
		inc[new].lease = 1;
		inc[new].moved[0] = 0; inc[new].moved[1] = 0; inc[new].moved[2] = 0;
		res = 1;	/* 2: the old name was neither under rescue nor marked dead */
		if
		:: (old) != NOBODY ->
			n = MUTANT(TAKES_FROM_RESCUE) || inc[old].size == 0;
			for (z : 0 .. 2) {
				if
				:: !n || (MUTANT(ONLY_WHERE_EMPTY) && SOME_AT(TRAY(new, z)))
				:: else -> rename(TRAY(old, z), TRAY(new, z))
				fi
			}
			res = 1 + (n && inc[old].registered && !inc[old].died);
			inc[old].lease = 0;
			inc[old].died = inc[old].registered
		:: else
		fi
	fi
}

/* deregister.lua */
inline deregister(i)
{
	res = (TRAYS_HOLD(i) == 0);
	if
	:: res -> inc[i].lease = 0; inc[i].registered = 0; inc[i].died = 0; inc[i].size = 0
	:: else
	fi
}

inline push_escape()
{
	for (x : 0 .. MESSAGES - 1) {
		if
		:: AT(x, LIMBO) -> msg[x].place = ESCAPE
		:: else
		fi
	}
}

#define COUNTED_ELSE 7	/* an answer to C_DEL, and to C_LREM: nothing was deleted */

/* A command of i; got: what a FETCH brings. res: the answer. */
inline perform(i, command, bytes, old, got)
{
	if
	:: OP(command) == C_FETCH -> printf("-- redis: name %d tray %d: FETCH brings %d\n", i, TRAY_OF(command), got)
	:: OP(command) == C_RENEW -> printf("-- redis: RENEW to name %d in place of %d\n", i, old)
	:: OP(command) == C_LEAVE -> printf("-- redis: LEAVE of name %d\n", i)
	:: OP(command) >= C_STOPPING -> printf("-- redis: name %d: %d (STOPPING 11, TRIAL 12) of %d\n", i, OP(command), bytes)
	:: else -> printf("-- redis: name %d tray %d: %d (DEL 0, LREM 4, RETRY 5, ESCAPE 6, BACK 7-9) of %d\n", i, TRAY_OF(command), OP(command), bytes & 3)
	fi;
	if
	:: OP(command) == C_DEL && (bytes) > 0 && inc[i].moved[TRAY_OF(command)] != (bytes) -> res = COUNTED_ELSE	/* done.lua */
	:: OP(command) == C_DEL && !((bytes) > 0 && inc[i].moved[TRAY_OF(command)] != (bytes)) -> del(TRAY(i, TRAY_OF(command)))
	:: OP(command) == C_FETCH ->
		if
		:: got != NOBODY -> msg[got].place = TRAY(i, TRAY_OF(command))
		:: else
		fi
	:: OP(command) == C_RENEW -> renew(i, old)
	:: OP(command) == C_LEAVE -> deregister(i)
	:: OP(command) == C_PUSH_ESCAPE -> push_escape()
	:: OP(command) == C_STOPPING -> inc[i].stopping = inc[i].registered && !inc[i].died
	:: OP(command) == C_TRIAL -> inc[i].tried = (inc[i].registered && !inc[i].died -> 1 + (bytes) : 0)
	:: OP(command) == C_LREM && OPEN && !inc[i].lease && !MUTANT(ACKNOWLEDGES_ANY) -> res = COUNTED_ELSE	/* done.lua */
	:: else ->
		move_one(TRAY(i, TRAY_OF(command)), OP(command), bytes);
		if
		:: COUNTS && res && OP(command) >= C_RETRY && inc[i].lease -> inc[i].moved[TRAY_OF(command)]++
		:: else
		fi
	fi
}

/* The order within ingress is left open: any of them may be fetched. Twins that nothing tells apart are one case. */
#define TWINS (AT(0, INGRESS) && AT(1, INGRESS) && msg[0].says == msg[1].says && msg[0].started == msg[1].started)
#define MAY_GET(which) (AT(which, INGRESS) && !((which) == 1 && TWINS))
#define CHOOSE_WHAT_IS_FETCHED(command, got) \
	if \
	:: OP(command) == C_FETCH && MAY_GET(0) -> got = 0 \
	:: OP(command) == C_FETCH && MAY_GET(1) -> got = 1 \
	:: OP(command) == C_FETCH && MAY_GET(2) -> got = 2 \
	:: OP(command) == C_FETCH && (POOL || !SOME_AT(INGRESS)) -> got = NOBODY \
	:: OP(command) != C_FETCH -> got = NOBODY

/* ---- names and connections that are free again ---- */

/* Nothing about it changes but the number we have for it. */
inline move_name(from, to)
{
	for (x : 0 .. MESSAGES - 1) {
		if
		:: msg[x].place >= TRAY(from, 0) && msg[x].place <= RESCUE(from) && !MUTANT(SHARED_LIST) ->
			msg[x].place = msg[x].place + 4 * (to) - 4 * (from)
		:: else
		fi
	}
	inc[to].used = inc[from].used; inc[to].lease = inc[from].lease; inc[to].registered = inc[from].registered;
	inc[to].died = inc[from].died; inc[to].size = inc[from].size; inc[to].dead = inc[from].dead;
	inc[to].rescue = inc[from].rescue; inc[to].page = inc[from].page;
	inc[to].stopping = inc[from].stopping; inc[to].tried = inc[from].tried; inc[to].ordered = inc[from].ordered;
	forget(from);
	if
	:: older.is ->		/* of a name that is not used any more nobody asks what its lease counts */
		for (x : 0 .. MESSAGES - 1) {
			if
			:: KEPT_IN(x, from) -> older.msg[x].place = older.msg[x].place + 4 * (to) - 4 * (from)
			:: else
			fi
		}
		older.inc[to].lease = older.inc[from].lease; older.inc[to].registered = older.inc[from].registered;
		older.inc[to].died = older.inc[from].died; older.inc[to].size = older.inc[from].size;
		older.inc[to].stopping = older.inc[from].stopping; older.inc[to].tried = older.inc[from].tried;
		forget_kept(from)
	:: else
	fi;
	for (x : 0 .. WORKERS - 1) {
		if
		:: wk[x].previous == (from) -> wk[x].previous = to
		:: else
		fi
	}
	for (x : 0 .. LATE - 1) {
		if
		:: late[x].name == (from) -> late[x].name = to
		:: else
		fi;
		if
		:: late[x].instead == (from) -> late[x].instead = to
		:: else
		fi
	}
}

inline forget(i)
{
	inc[i].used = 0; inc[i].lease = 0; inc[i].registered = 0; inc[i].died = 0; inc[i].size = 0; inc[i].dead = 0;
	inc[i].rescue = 0; inc[i].page = 0; inc[i].stopping = 0; inc[i].tried = 0; inc[i].ordered = 0;
	inc[i].moved[0] = 0; inc[i].moved[1] = 0; inc[i].moved[2] = 0
}

#define COMES_LATE(i) (late[0].name == (i) || late[0].instead == (i) || late[LATE - 1].name == (i) || late[LATE - 1].instead == (i))

/* A name of which nothing is left anywhere is as good as one that was never used: forget.lua, and then a new one. */
inline tidy()
{
	for (a : WORKERS .. INCARNATIONS - 1) {
		if
		:: TRAYS_HOLD(a) + HOW_MANY_AT(RESCUE(a)) == 0 && !COMES_LATE(a) && wk[0].previous != a && wk[WORKERS - 1].previous != a &&
			(!inc[a].registered || inc[a].died) && !inc[a].lease && !inc[a].dead && !inc[a].rescue && !IS_KEPT(a) -> forget(a)
		:: else
		fi
	}
	for (a : WORKERS .. INCARNATIONS - 2) {
		if
		:: !inc[a].used && inc[a + 1].used && !POOL -> move_name(a + 1, a)
		:: else
		fi
	}
	a = 0	/* a step may not end with a loop */
}

/* What a connection still brings when it is given up: the first so many commands of what is under way. */
inline give_up_wire(w, kept)
{
	z = len(wire[w]);
	for (x : 1 .. z) {
		wire[w]?y, n;
		if
		:: x <= kept -> wire[WORKERS + (late[0].name != NOBODY)]!y, n
		:: else -> must(!(OP(y) == C_PUSH_ESCAPE && SOME_AT(LIMBO)), lost_never_pushed)
		fi
	}
	if
	:: kept > 0 ->
		x = (late[0].name != NOBODY);
		late[x].name = w;
		late[x].instead = (wk[w].renewing == 1 -> wk[w].previous : NOBODY)
	:: else
	fi
}

/* All of it has arrived. */
inline late_is_over()
{
	for (a : 0 .. LATE - 1) {
		z = len(wire[WORKERS + a]);
		if
		:: z == 0 && late[a].name != NOBODY ->
			must(!SOME_AT(LIMBO), lost_never_pushed);
			late[a].name = NOBODY; late[a].instead = NOBODY
		:: else
		fi
	}
	z = len(wire[WORKERS + LATE - 1]);
	if
	:: LATE > 1 && late[0].name == NOBODY && z > 0 ->
		for (x : 1 .. z) {
			wire[WORKERS + LATE - 1]?y, n;
			wire[WORKERS]!y, n
		}
		late[0].name = late[LATE - 1].name; late[0].instead = late[LATE - 1].instead;
		late[LATE - 1].name = NOBODY; late[LATE - 1].instead = NOBODY
	:: else
	fi
}
