/*
 * A worker: trays in rotation, one handler or a window of them, what is sent and what the answers mean; a new
 * name after every doubt, and adoption.
 *	worker/tray.c starter.c runner_exec.c runner_persistent.c settle.c mover.c fetcher.c	messages
 *	worker/session.c adopt.c worker.c						names
 */

#define EMPTY 0		/* enum tray_state */
#define FETCHING 1
#define FILLED 2
#define DELETING 3

#define GONE 0		/* enum item_state; or nothing was ever there */
#define WAITING 1
#define RUNNING 2
#define SUCCEEDED 3	/* ITEM_DONE */
#define MOVING 4

typedef item {
	unsigned state : 3;
	unsigned id : 2;	/* which message it is taken for: it, or its twin */
	unsigned says : 6;	/* its wrapper, as it was fetched */
	unsigned lost : 1;
	unsigned again : 1;	/* nobody asked for it: it may have run before */
	unsigned move : 4;	/* MOVING: C_LREM .. C_BACK_SOLO */
	unsigned sent : 2;	/* MOVING: in which order within its tray; 0: not sent */
	unsigned nonce : 3	/* MOVING, C_RETRY */
};
typedef tray {
	unsigned state : 2;
	unsigned asked : 2;	/* FETCHING: answers to come */
	unsigned sent : 1;	/* DELETING */
	unsigned more : 1;	/* refilled: it took more while its messages ran */
	unsigned serial : 2;	/* 1: the oldest */
	byte moved		/* how many left it alive, by the answers */
};
typedef worker {
	unsigned up : 1;	/* connected */
	unsigned named : 1;	/* it has a name: incarnation w, w being its own number */
	unsigned confirmed : 1;
	unsigned previous : 3;	/* the last confirmed name, until that is; NOBODY: none */
	unsigned registered : 1;	/* its renewal was answered on this connection, and its trays read */
	unsigned untouched : 1;	/* nothing can have been taken since it read its trays last */
	unsigned renewing : 2;	/* 1: sent, 2: answered, and the trays are to be read */
	unsigned fresh : 1;	/* by its own clock the lease cannot have run out */
	unsigned asking : 1;	/* a PEXPIRE was sent in time, and is not answered */
	unsigned leaving : 1;	/* ORDER_FINISH, ORDER_HAND_BACK */
	unsigned left : 1;	/* deregister.lua was sent */
	unsigned refused : 1;	/* a move was: nothing is fetched meanwhile */
	unsigned robbed : 2;	/* for the properties: a tray of it was fenced; 2: of the name it is about to adopt */
	unsigned busy : 1;	/* it has a step that concerns nobody else */
	unsigned asks : 1;	/* with pool: it asks for messages as soon as there can be some */
	unsigned noted : 1;	/* it wrote under this name that it was ordered to stop */
	unsigned tried : 2;	/* its trial: 1: Redis is told of it, 2: has answered; 3: waits for that of another */
	unsigned tries : 3;	/* which item */
	unsigned struck : 1;	/* its supervisor is killed as a whole */
	unsigned holds : 1	/* its trays are not all empty */
};
worker wk[WORKERS];

#define I(k, j) ((k) * 2 + (j))
#define IN_TRAY(k, s) (it[I(k, 0)].state == (s) || it[I(k, 1)].state == (s))
#define ITEMS(s) ((it[0].state == (s)) + (it[1].state == (s)) + (it[2].state == (s)) + \
	(it[3].state == (s)) + (it[4].state == (s)) + (it[5].state == (s)))
#define TRAYS(s) ((tr[0].state == (s)) + (tr[1].state == (s)) + (tr[2].state == (s)))
#define LOWEST(s) (tr[0].state == (s) -> 0 : (tr[1].state == (s) -> 1 : 2))
#define USABLE(w) (wk[w].registered && wk[w].fresh)

/* ---- trays and items ---- */

inline clear(which)
{
	it[which].state = GONE; it[which].id = 0; it[which].says = 0; it[which].lost = 0;
	it[which].move = 0; it[which].sent = 0; it[which].nonce = 0; it[which].again = 0
}

inline add(w, k, which)
{
	a = (it[I(k, 0)].state == GONE -> I(k, 0) : I(k, 1));
	if	/* a lost one makes room: the end of its handler changes nothing */
	:: it[a].state != GONE && (returned || OPEN) ->
		a = (it[I(k, 0)].lost -> I(k, 0) : I(k, 1));
		assert(it[a].lost);
		if
		:: (wk[w].tried == 1 || wk[w].tried == 2) && wk[w].tries == a -> end_trial(w)
		:: else
		fi;
		clear(a)
	:: else
	fi;
	assert(it[a].state == GONE);
	it[a].state = WAITING;
	it[a].id = which;
	it[a].says = msg[which].says
}

inline fill(k)
{
	tr[k].state = FILLED;
	tr[k].asked = 0;
	tr[k].serial = (tr[k].serial > 0 -> tr[k].serial : 1 + (tr[0].serial > 0) + (tr[1].serial > 0) + (tr[2].serial > 0))
}

inline empty_tray(k)
{
	clear(I(k, 0));
	clear(I(k, 1));
	for (z : 0 .. 2) {
		if
		:: tr[k].serial > 0 && tr[z].serial > tr[k].serial -> tr[z].serial--
		:: else
		fi
	}
	tr[k].state = EMPTY; tr[k].sent = 0; tr[k].asked = 0; tr[k].serial = 0; tr[k].more = 0
}

/* mover_close_tray() */
inline close(k)
{
	if
	:: (tr[k].state != FILLED && !(MUTANT(CLOSES_WHILE_FETCHING) && tr[k].more)) || IN_TRAY(k, WAITING) || IN_TRAY(k, RUNNING) || IN_TRAY(k, MOVING)
	:: else ->
		if
		:: IN_TRAY(k, SUCCEEDED) -> tr[k].state = DELETING; tr[k].sent = 0
		:: else -> empty_tray(k)
		fi
	fi
}

/* It turns out to be the twin: so is the other item then, and whose handler did what. */
inline take_for(w, k, which, other)
{
	if
	:: it[which].id != (other) ->
		y = it[which].id;
		/* or this concerns somebody else */
		assert(!POOL || KILLS || ENDED(y) || (wk[w].robbed &&
			(!OTHERS || LIES_WITH(y, w) || ((msg[y].says & REDELIVERED) && !msg[y].started && !msg[other].started))));
		runs = (it[which].state == RUNNING);
		for (b : I(k, 0) .. I(k, 1)) {
			if
			:: b != which && it[b].state != GONE && it[b].id == (other) -> it[b].id = y; runs = runs || it[b].state == RUNNING
			:: else
			fi
		}
		it[which].id = other;
		z = msg[y].started; msg[y].started = msg[other].started; msg[other].started = z;
		if	/* or it is somebody else who runs it */
		:: runs -> z = msg[y].running; msg[y].running = msg[other].running; msg[other].running = z
		:: else
		fi
	:: else
	fi
}

/* Before anything is noted of its message: is it that one or its twin that lies in the tray? x: which, NOBODY: neither. */
inline look_up(w, k, which)
{
	lrem(TRAY(w, k), it[which].id, it[which].says == 0);
	if
	:: x == NOBODY && wk[w].previous != NOBODY -> lrem(TRAY(wk[w].previous, k), it[which].id, it[which].says == 0)
	:: else
	fi;
	if
	:: x != NOBODY -> take_for(w, k, which, x)
	:: else
	fi
}

/* ---- moves ---- */

inline send(w, op, k, j, bytes)
{
	wire[w]!COMMAND(op, k, j), bytes
}

inline send_move(w, k, j)
{
	a = I(k, j);
	b = I(k, 1 - (j));
	if
	:: it[a].state == MOVING && it[a].sent == 0 ->
		it[a].sent = (it[b].state == MOVING && it[b].sent > 0 -> it[b].sent + 1 : 1);
		send(w, it[a].move, k, j, BYTES(it[a].id, it[a].says == 0, it[a].nonce));
		if
		:: it[a].move == C_ESCAPE && MUTANT(REMOVE_FIRST) -> send(w, C_PUSH_ESCAPE, k, j, 0)
		:: else
		fi
	:: else
	fi
}

inline choose(w, which, how)
{
	it[which].state = MOVING;
	it[which].move = how;
	it[which].sent = 0;
	it[which].nonce = ((how) == C_RETRY -> 1 + it[which].id + 3 * (w) : 0)
}

/* tray_let_done_leave() */
inline let_done_leave(w)
{
	for (a : 0 .. 5) {
		if
		:: it[a].state == SUCCEEDED && tr[a / 2].more && tr[a / 2].state == FILLED -> choose(w, a, C_LREM)
		:: else
		fi
	}
}

/* mover_tick(): in each tray the newest first. */
inline send_moves(w)
{
	if
	:: wk[w].registered && !wk[w].refused ->
		let_done_leave(w);
		for (k1 : 0 .. 2) {
			send_move(w, k1, 1);
			send_move(w, k1, 0)
		}
		for (k1 : 0 .. 2) {
			if
			:: tr[k1].state == DELETING && !tr[k1].sent -> tr[k1].sent = 1; send(w, C_DEL, k1, 0, (MUTANT(COUNTS_NOTHING) -> 0 : tr[k1].moved))
			:: else
			fi
		}
	:: else
	fi
}

/* settle_relieve() */
inline relieve(w, but)
{
	for (k1 : 0 .. 2) {
		for (a : I(k1, 0) .. I(k1, 1)) {
			if
			:: tr[k1].state == FILLED && it[a].state == SUCCEEDED -> choose(w, a, C_LREM)
			:: tr[k1].state == FILLED && it[a].state == WAITING && a != (but) -> choose(w, a, (it[a].again -> C_BACK_REDELIVERED : C_BACK))
			:: else
			fi
		}
	}
}

/* ---- handlers ---- */

#define SOLO_IS(s) ((it[0].state == (s) && IS_SOLO(it[0].says)) || (it[1].state == (s) && IS_SOLO(it[1].says)) || \
	(it[2].state == (s) && IS_SOLO(it[2].says)) || (it[3].state == (s) && IS_SOLO(it[3].says)) || \
	(it[4].state == (s) && IS_SOLO(it[4].says)) || (it[5].state == (s) && IS_SOLO(it[5].says)))

inline start(w, k, which)
{
	look_up(w, k, which);
	it[which].state = RUNNING;
	printf("-- worker %d: starts %d of tray %d\n", w, it[which].id, k);
	x = it[which].id;
	if
	:: !(it[which].says & REDELIVERED) && !it[which].again ->
		must(!msg[x].started || returned, runs_again_untold);
		msg[x].started = !(msg[x].says & REDELIVERED)
	:: else
	fi;
	must(!(KILLS && msg[x].running) || returned, runs_twice_at_once);
	msg[x].running = KILLS || POISON
}

/* evidence.c: one trial at a time in a supervisor, and Redis knows of it before it begins */
inline ask_for_trial(w, which)
{
	if
	:: wk[w].tried == 1
	:: wk[w].tried != 1 && trial != NOBODY && !MUTANT(TRIALS_TOGETHER) -> wk[w].tried = 3
	:: else ->
		trial = w;
		wk[w].tried = 1;
		wk[w].tries = which;
		send(w, C_TRIAL, 0, 0, it[which].id)
	fi
}

inline end_trial(w)
{
	trial = (trial == w -> NOBODY : trial);
	wk[w].tried = 0;
	wk[w].tries = 0
}

/* starter_next(): the first that waits in the oldest tray; of a solo one all others are taken away first. */
inline starter_next(w)
{
	e = NOBODY;
	n = NOBODY;
	for (k1 : 0 .. 2) {
		if
		:: tr[k1].state == FILLED && IN_TRAY(k1, WAITING) && tr[k1].serial < n ->
			n = tr[k1].serial;
			e = (it[I(k1, 0)].state == WAITING -> I(k1, 0) : I(k1, 1))
		:: else
		fi
	}
	if
	:: e == NOBODY || SOLO_IS(RUNNING)
	:: e != NOBODY && !SOLO_IS(RUNNING) && IS_SOLO(it[e].says) && (TRAYS(EMPTY) < 2 || ITEMS(GONE) < 5) ->
		relieve(w, (MUTANT(RELIEVES_ALL) -> NOBODY : e))
	:: e != NOBODY && !SOLO_IS(RUNNING) && !(IS_SOLO(it[e].says) && (TRAYS(EMPTY) < 2 || ITEMS(GONE) < 5)) && OUTAGES_OF(it[e].says) == 2 &&
		wk[w].tried != 2 -> ask_for_trial(w, e)
	:: else -> start(w, e / 2, e)
	fi
}

/* With pool, each step notes it. */
inline note_for_pool(w)
{
	if
	:: POOL -> note_busy(w)
	:: else
	fi
}

/* What a turn of its loop does by itself after whatever has happened. */
inline turn(w)
{
	if
	:: wk[w].tried && (wk[w].tried == 3 -> ITEMS(WAITING) == 0 : it[wk[w].tries].state == GONE) -> end_trial(w)
	:: else
	fi;
	if
	:: wk[w].leaving && wk[w].registered && !wk[w].noted && !wk[w].left -> wk[w].noted = 1; send(w, C_STOPPING, 0, 0, 0)
	:: else
	fi;
	if
	:: wk[w].leaving -> relieve(w, NOBODY)
	:: !wk[w].leaving && USABLE(w) && ITEMS(RUNNING) < WINDOW -> starter_next(w)
	:: else
	fi;
	if
	:: !wk[w].leaving && USABLE(w) && ITEMS(RUNNING) > 0 && ITEMS(RUNNING) < WINDOW -> starter_next(w)
	:: else
	fi;
	send_moves(w);
	note_busy(w)
}

#define MOVES_TO_INGRESS(a) (it[a].state == MOVING && it[a].move >= C_BACK)
#define ANYTHING_TO_INGRESS (MOVES_TO_INGRESS(0) || MOVES_TO_INGRESS(1) || MOVES_TO_INGRESS(2) || MOVES_TO_INGRESS(3) || \
	MOVES_TO_INGRESS(4) || MOVES_TO_INGRESS(5))

#define MAY_ASK(w) (w < bound.workers && USABLE(w) && !wk[w].leaving && !wk[w].refused && TRAYS(FETCHING) == 0 && TRAYS(EMPTY) > 0 && \
	!SOLO_IS(WAITING) && !SOLO_IS(RUNNING) && ITEMS(WAITING) < BATCH)
/* The worker does so only while no tray is empty: what may happen then, happens here at any time. */
#define OPEN_TRAY(k) (tr[k].state == FILLED && IN_TRAY(k, RUNNING) && IN_TRAY(k, GONE))
#define MAY_ASK_FOR_MORE(w) (OPEN && USABLE(w) && !wk[w].leaving && !wk[w].refused && TRAYS(FETCHING) == 0 && \
	(OPEN_TRAY(0) || OPEN_TRAY(1) || OPEN_TRAY(2)) && !SOLO_IS(RUNNING) && ITEMS(WAITING) == 0 && ITEMS(RUNNING) < WINDOW)
/* In pool, what it does next is to take something. */
#define TAKES_NEXT(w) (wire[w]?[8, 0] || wire[w]?[10, 0] || wire[w]?[12, 0])	/* COMMAND(C_FETCH, 0 .. 2, 0) */

inline note_busy(w)
{
	if
	:: POOL ->
		wk[w].asks = MAY_ASK(w) && !TAKES_NEXT(w);
		wk[w].busy = !TAKES_NEXT(w) && (len(wire[w]) > 0 || ITEMS(RUNNING) > 0 || !USABLE(w) || wk[w].renewing || wk[w].asking ||
			wk[w].refused || wk[w].leaving)
	:: else ->
		wk[w].busy = EAGER && USABLE(w) && !wk[w].leaving && !wk[w].refused && TRAYS(FETCHING) == 0 && !ANYTHING_TO_INGRESS &&
			(ITEMS(RUNNING) + ITEMS(MOVING) + TRAYS(DELETING) > 0)
	fi;
	wk[w].holds = (TRAYS(EMPTY) < 3)
}

#define C_NONE 0	/* how a handler ends: it succeeded. Otherwise the move that follows */

inline end_handler(w, k, which, how)
{
	printf("-- worker %d: handler of %d in tray %d ended: %d (0 done, 5 retry, 6 escape)\n", w, it[which].id, k, how);
	msg[it[which].id].running = 0;
	if
	:: it[which].lost -> clear(which)
	:: !it[which].lost && (how) == C_NONE ->
		it[which].state = SUCCEEDED;
		a = it[which].says >> 5;
		msg[it[which].id].did[a] = (COUNTS -> msg[it[which].id].did[a] | (1 << (it[which].says & 31)) : 0);
		look_up(w, k, which);
		if
		:: x != NOBODY -> msg[x].succeeded = 1
		:: else
		fi
	:: else -> choose(w, which, how)
	fi;
	close(k)
}

inline end_all_handlers(w, how)
{
	for (e : 0 .. 5) {
		if
		:: it[e].state == RUNNING -> end_handler(w, e / 2, e, how)
		:: else
		fi
	}
}

/* Its time is over by its own clock; with fence = "kill" nothing of it runs by then: fence.c */
inline lapse(w, by_then)
{
	wk[w].fresh = 0;
	wk[w].asking = by_then && (!POOL || inc[w].lease || MUTANT(LEASE_RECREATED));
	wk[w].busy = 0;
	printf("-- worker %d: its time is over, PEXPIRE under way: %d\n", w, by_then);
	if
	:: KILLS && !MUTANT(LETS_RUN) -> end_all_handlers(w, C_BACK_REDELIVERED)
	:: else
	fi;
	send_moves(w);
	note_for_pool(w)
}

/* ---- names ---- */

#define KEEPS_NAME(w) (wk[w].named && !wk[w].confirmed && !MUTANT(FORGETS_PREVIOUS))
#define CAN_NAME(w) (!wk[w].named || KEEPS_NAME(w) || ROOM)

/* Its name becomes one that it had. y: where that is. */
inline put_name_away(w)
{
	y = (POOL && !inc[WORKERS + (w)].used -> WORKERS + (w) : WORKERS);
	do
	:: inc[y].used -> y++
	:: else -> break
	od;
	e = y;
	move_name(w, e);
	wk[w].named = 0;
	y = e
}

inline take_new_name(w)
{
	if
	:: KEEPS_NAME(w)
	:: else ->
		if
		:: wk[w].named -> put_name_away(w); wk[w].previous = y
		:: else
		fi;
		inc[w].used = 1;
		wk[w].named = 1;
		wk[w].confirmed = 0
	fi
}

inline send_renewal(w)
{
	take_new_name(w);
	printf("-- worker %d: asks for a name, in place of %d\n", w, wk[w].previous);
	wk[w].up = 1;
	wk[w].renewing = 1;
	wk[w].registered = 0;
	wk[w].noted = 0;
	send(w, C_RENEW, 0, 0, 0);
	if	/* a registration dies with its name: Redis is told of the trial again */
	:: (wk[w].tried == 1 || wk[w].tried == 2) && it[wk[w].tries].state != GONE ->
		wk[w].tried = 1;
		send(w, C_TRIAL, 0, 0, it[wk[w].tries].id)
	:: else
	fi;
	note_for_pool(w)
}

/* Its connection ends. What was sent on it is under way still: the first `kept` commands of it. */
inline let_go(w, kept)
{
	printf("-- worker %d: is cut off with %d under way, of which %d arrive\n", w, len(wire[w]), kept);
	give_up_wire(w, kept);
	wk[w].up = 0; wk[w].registered = 0; wk[w].renewing = 0; wk[w].asking = 0; wk[w].left = 0; wk[w].busy = 0
}

inline renewed(w)
{
	wk[w].confirmed = 1;
	wk[w].previous = NOBODY;
	if
	:: res -> wk[w].fresh = 1; wk[w].renewing = 2; wk[w].untouched = wk[w].untouched && res == 2
	:: else -> wk[w].untouched = 0; let_go(w, 0)	/* another name, on another connection */
	fi;
	tidy()
}

inline renew_name(w)
{
	printf("-- worker %d: wants another name\n", w);
	if
	:: !wk[w].renewing -> wk[w].registered = 0
	:: else
	fi
}

inline claim_lost(w)
{
	must(wk[w].robbed || returned, claim_lost_unfenced);
	renew_name(w)
}

/* The answer to a PEXPIRE that was sent in time. */
inline lease_answer(w)
{
	wk[w].asking = 0;
	if
	:: MUTANT(LEASE_RECREATED) -> inc[w].lease = 1; wk[w].fresh = 1
	:: !MUTANT(LEASE_RECREATED) && inc[w].lease -> wk[w].fresh = 1
	:: else -> renew_name(w)
	fi
}

/* ---- adoption ---- */

inline take(w, k, which)
{
	x = NOBODY;
	y = it[which].id;
	if
	:: AT(y, TRAY(w, k)) && !taken[y] && msg[y].says == it[which].says -> x = y
	:: else ->
		if
		:: it[which].says == 0 && y < 2 && AT(1 - y, TRAY(w, k)) && msg[1 - y].says == 0 && !taken[1 - y] -> x = 1 - y
		:: else
		fi
	fi;
	if
	:: x != NOBODY -> taken[x] = 1; take_for(w, k, which, x)
	:: else
	fi
}

#define IN_DOUBT(which) (it[which].state == MOVING && it[which].sent > 0)

inline match_certain(w, k)
{
	for (a : I(k, 0) .. I(k, 1)) {
		if
		:: it[a].state != GONE && !it[a].lost && !IN_DOUBT(a) ->
			take(w, k, a);
			if
			:: x == NOBODY ->
				must(wk[w].robbed || returned || MUTANT(ONE_TRAY) || tr[k].sent, claim_lost_unfenced);
				if
				:: it[a].state == RUNNING ->
					it[a].lost = 1;
					if	/* all that is of interest still */
					:: POOL && !KILLS -> it[a].id = 0; it[a].says = (IS_SOLO(it[a].says) -> SOLO : 0)
					:: else
					fi
				:: else -> clear(a)
				fi
			:: else
			fi
		:: else
		fi
	}
}

inline match_in_doubt(w, k, which)
{
	if
	:: IN_DOUBT(which) ->
		take(w, k, which);
		if
		:: x != NOBODY -> it[which].sent = 0
		:: else -> clear(which)
		fi
	:: else
	fi
}

/* What was sent last is looked for first. */
inline match_doubtful(w, k)
{
	a = I(k, 0);
	if
	:: (it[a].sent < it[a + 1].sent) != MUTANT(FIRST_SENT_IS_THERE) -> match_in_doubt(w, k, a + 1); match_in_doubt(w, k, a)
	:: else -> match_in_doubt(w, k, a); match_in_doubt(w, k, a + 1)
	fi
}

#define DISTRUSTED(w, k) (tr[k].more && !wk[w].untouched && !MUTANT(TRUSTS_ITS_ITEMS))

inline add_unknown(w, k)
{
	for (m : 0 .. MESSAGES - 1) {
		if
		:: AT(m, TRAY(w, k)) && !taken[m] ->
			must(returned || tr[k].state == FETCHING || tr[k].state == EMPTY || DISTRUSTED(w, k), somebody_else_wrote);
			add(w, k, m);
			it[a].again = (tr[k].state != FETCHING || n == 0);
			n = n - (n > 0)
		:: else
		fi
	}
}

/* What runs goes on, and its end changes nothing. */
inline lose_all_claims(w, k)
{
	for (b : I(k, 0) .. I(k, 1)) {
		if
		:: it[b].state == RUNNING -> it[b].lost = 1
		:: it[b].state != RUNNING && it[b].state != GONE -> clear(b)
		:: else
		fi
	}
}

inline adopt_filled(w, k)
{
	taken[0] = 0; taken[1] = 0; taken[2] = 0;
	n = tr[k].asked;
	if
	:: DISTRUSTED(w, k) -> lose_all_claims(w, k); n = 0
	:: else
	fi;
	tr[k].asked = n;
	if
	:: MUTANT(DOUBTFUL_FIRST) -> match_doubtful(w, k); match_certain(w, k)
	:: else -> match_certain(w, k); match_doubtful(w, k)
	fi;
	n = tr[k].asked;
	add_unknown(w, k);
	if
	:: tr[k].state == DELETING -> tr[k].state = FILLED; tr[k].sent = 0
	:: tr[k].state == FETCHING || (tr[k].state == EMPTY && SOME_AT(TRAY(w, k))) -> fill(k)
	:: else
	fi;
	tr[k].moved = 0;
	close(k)
}

inline adopt_tray(w, k)
{
	if
	:: MUTANT(NO_ADOPTION) ->
		if
		:: tr[k].state == FETCHING -> fill(k); close(k)
		:: tr[k].state == DELETING -> empty_tray(k)
		:: else
		fi
	:: else ->
		if
		:: MUTANT(DELETES_BY_BELIEF) && tr[k].state == DELETING && SOME_AT(TRAY(w, k)) -> tr[k].sent = 0; tr[k].moved = 0
		:: else -> adopt_filled(w, k)
		fi
	fi
}

inline adopt(w)
{
	printf("-- worker %d: adopts\n", w);
	for (k1 : 0 .. 2) {
		adopt_tray(w, k1)
	}
	wk[w].renewing = 0;
	wk[w].registered = 1;
	wk[w].untouched = OPEN;
	wk[w].robbed = (wk[w].robbed == 2)
}

/* ---- the end of a worker; another one is started ---- */

#define HELD(w, which) ((wk[w].named && LIES(which, w)) || (wk[w].previous != NOBODY && LIES(which, wk[w].previous)))

/* Who cannot have done it: what lay there while the handler of another, that lay there too, was running. */
inline note_innocent(w)
{
	for (m : 0 .. MESSAGES - 1) {
		n = 0;
		for (b : 0 .. 5) {
			n = n + (it[b].state == RUNNING && !it[b].lost && it[b].id != m && HELD(w, it[b].id))
		}
		if
		:: n > 0 && HELD(w, m) -> msg[m].innocent = 1
		:: else
		fi
	}
}

/* With pool, its renewal was never done. */
#define UNKNOWN(w) (POOL && !inc[w].registered && TRAYS_HOLD(w) == 0)

inline end_worker(w, why, so_many)
{
	printf("-- worker %d: ends (1 killed, 2 by itself): %d\n", w, why);
	if
	:: (why) == REPORTED -> note_innocent(w)
	:: else
	fi;
	let_go(w, so_many);
	inc[w].ordered = wk[w].leaving && ((why) != VANISHED || inc[w].stopping);
	end_trial(w);
	if
	:: wk[w].previous != NOBODY -> inc[wk[w].previous].dead = why
	:: else
	fi;
	wk[w].previous = NOBODY;
	if
	:: wk[w].named && UNKNOWN(w) -> forget(w); wk[w].named = 0
	:: wk[w].named && !UNKNOWN(w) -> put_name_away(w); inc[y].dead = why
	:: else
	fi;
	wk[w].confirmed = 0; wk[w].fresh = 0; wk[w].leaving = 0; wk[w].noted = 0; wk[w].refused = 0; wk[w].robbed = 0; wk[w].untouched = 0; wk[w].holds = 0;
	for (k1 : 0 .. 2) {
		for (a : I(k1, 0) .. I(k1, 1)) {
			if
			:: it[a].state == RUNNING -> msg[it[a].id].running = 0
			:: else
			fi
		}
		empty_tray(k1)
	}
	tidy();
	note_for_pool(w)
}

/* ---- answers ---- */

/*
 * Others had it meanwhile, and what befell it there is noted when it is fetched. That it was charged makes no difference here but that it
 * has to run alone: whether it then comes back or escapes is open, as is whether anything comes back. Of interest only to a handler
 * that fails is how often it was tried.
 */
inline befall(w, which, what)
{
	fault[w].fails = fault[w].fails - ((what) == ATTEMPT);
	msg[which].says = msg[which].says | (what);
	if
	:: msg[which].says & CRASHED -> msg[which].says = (msg[which].says | SOLO) & ~CRASHED
	:: else
	fi;
	if
	:: (msg[which].says & REDELIVERED) && !fault[w].fails -> msg[which].says = msg[which].says & ~ATTEMPT
	:: else
	fi
}

/* With pool, after nothing comes nothing: what might come, could have come first. */
inline bring_nothing(w, k)
{
	do
	:: tr[k].asked > 1 -> wire[w]?y, n; tr[k].asked--
	:: else -> break
	od;
	y = 0	/* a step may not end with a loop */
}

/* It was answered: it is not sent again. With pool that is all that could tell what is delayed from what lies in ingress. */
inline forget_nonce(stamp)
{
	for (z : 0 .. MESSAGES - 1) {
		if
		:: AT(z, DELAYED) && msg[z].nonce == (stamp) -> msg[z].place = INGRESS; msg[z].nonce = 0
		:: else
		fi
	}
	z = 0
}

inline answer(w, command, got)
{
	if
	:: OP(command) == C_FETCH ->
		if
		:: got != NOBODY -> add(w, TRAY_OF(command), got)
		:: else
		fi;
		tr[TRAY_OF(command)].asked--;
		if
		:: tr[TRAY_OF(command)].asked == 0 -> fill(TRAY_OF(command)); close(TRAY_OF(command))
		:: else
		fi
	:: OP(command) == C_RENEW -> renewed(w)
	:: OP(command) == C_LEAVE ->
		if
		:: res && !IS_KEPT(w) -> forget(w); wk[w].named = 0
		:: else
		fi;
		end_worker(w, BLAMELESS, 0)
	:: OP(command) == C_DEL ->
		if
		:: res == COUNTED_ELSE -> tr[TRAY_OF(command)].sent = 0
		:: res != COUNTED_ELSE && tr[TRAY_OF(command)].state == FETCHING -> clear(I(TRAY_OF(command), 0)); clear(I(TRAY_OF(command), 1))	/* ONE_TRAY */
		:: else -> empty_tray(TRAY_OF(command))
		fi;
		if
		:: res == COUNTED_ELSE -> renew_name(w)
		:: res == 0 -> claim_lost(w)
		:: else
		fi
	:: OP(command) == C_TRIAL -> wk[w].tried = (wk[w].tried == 1 -> 2 : wk[w].tried)
	:: IS_MOVE(command) && res == COUNTED_ELSE -> it[I(TRAY_OF(command), ITEM_OF(command))].sent = 0; renew_name(w)
	:: IS_MOVE(command) && res != COUNTED_ELSE ->
		clear(I(TRAY_OF(command), ITEM_OF(command)));
		tr[TRAY_OF(command)].moved = tr[TRAY_OF(command)].moved + (COUNTS && res && OP(command) >= C_RETRY);
		close(TRAY_OF(command));
		if
		:: res == 0 -> claim_lost(w)
		:: else
		fi
	:: else
	fi
}

/* Held: sent again after a while. */
inline refuse(w, command)
{
	wk[w].refused = 1;
	if
	:: OP(command) == C_DEL -> tr[TRAY_OF(command)].sent = 0
	:: else -> it[I(TRAY_OF(command), ITEM_OF(command))].sent = 0
	fi
}
