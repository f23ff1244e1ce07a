/*
 * What a worker does, and what may befall it, step by step.
 */

#define MAY_FETCH(w) (MAY_ASK(w) && (POOL -> SOME_LEFT(w) : SOME_AT(INGRESS)))
#define RELIEVABLE(k) (tr[k].state == FILLED && (IN_TRAY(k, WAITING) || IN_TRAY(k, SUCCEEDED)))

#define IS_ACK(command) (OP(command) == C_DEL || IS_MOVE(command))
#define ANSWERED 0
#define REFUSED 1
#define LOST 2		/* done, and its connection cut before the answer has come */

/* How much of what is under way still gets there. */
#define CHOOSE_KEPT(w, kept) \
	if \
	:: kept = 0 \
	:: len(wire[w]) > 0 && LATE_ROOM -> kept = 1 \
	:: len(wire[w]) > 1 && LATE_ROOM -> kept = 2 \
	:: len(wire[w]) > 2 && LATE_ROOM -> kept = 3 \
	:: len(wire[w]) > 3 && LATE_ROOM -> kept = 4 \
	:: len(wire[w]) > 4 && LATE_ROOM -> kept = 5 \
	fi

/* Fetched, run and acknowledged, by somebody whom nothing can disturb. */
inline get_done(which)
{
	must(!msg[which].started, runs_again_untold);
	must(!(KILLS && msg[which].running), runs_twice_at_once);
	end_message(which, DONE)
}

/* The reduction, docs/model.md: nothing can strike it any more, and nothing of it is under way. */
#define SETTLES_DOWN(w) (EAGER && SAFE(w) && !COMES_LATE(w))

/* With pool: whatever else it does or suffers between asking and the first answer, it could as well before it asks or after that. */
#define AWAITS(w) (POOL && WINDOW == 1 && fault[w].lapses == 0 && USABLE(w) && TAKES_NEXT(w) && \
	(tr[0].asked == BATCH || tr[1].asked == BATCH || tr[2].asked == BATCH))
/* And between asking for a name and adopting, it could as well before that. */
#define RENEWS(w) (POOL && WINDOW == 1 && wk[w].renewing)

/* With poison, window=1: its handler does not end. */
#define RUNS(m) ((it[0].state == RUNNING && it[0].id == m) || (it[1].state == RUNNING && it[1].id == m) || \
	(it[2].state == RUNNING && it[2].id == m) || (it[3].state == RUNNING && it[3].id == m) || \
	(it[4].state == RUNNING && it[4].id == m) || (it[5].state == RUNNING && it[5].id == m))
#define COUNTS_DIFFER(w) (tr[0].moved != inc[w].moved[0] || tr[1].moved != inc[w].moved[1] || tr[2].moved != inc[w].moved[2])

proctype Worker(byte w)
{
	tray tr[3];
	item it[6];
	byte ran, way, command, bytes, got;

end:	do
	/* session.c */
	:: d_step { OUR_TURN(w) && !wk[w].up && CAN_NAME(w) && !(SETTLES_DOWN(w) && !wk[w].named) -> send_renewal(w) }
	:: d_step { OUR_TURN(w) && !wk[w].up && !wk[w].named && SETTLES_DOWN(w) ->
		inc[w].used = 1; wk[w].named = 1; wk[w].up = 1;
		renew(w, NOBODY);
		renewed(w);
		adopt(w);
		note_for_pool(w) }
	:: d_step { OUR_TURN(w) && wk[w].up && !wk[w].registered && !wk[w].renewing && !wk[w].asking && len(wire[w]) == 0 && CAN_NAME(w) ->
		send_renewal(w) }
	:: d_step { OUR_TURN(w) && wk[w].renewing == 2 -> adopt(w); turn(w) }
	:: d_step { OUR_TURN(w) && wk[w].registered && !wk[w].fresh && !wk[w].asking && !wk[w].left -> renew_name(w); note_for_pool(w) }
	:: d_step { OUR_TURN(w) && wk[w].asking -> lease_answer(w); turn(w) }
	/* session.c: the answer to its next renewal of the lease says what the lease counts */
	:: d_step { !STRUCK && returned && USABLE(w) && !wk[w].renewing && len(wire[w]) == 0 && (!inc[w].lease || COUNTS_DIFFER(w)) -> renew_name(w) }

	/* fetch.c; the tray: any, since the names of those that are empty do not differ */
	:: atomic { OUR_TURN(w) && MAY_FETCH(w) && !SETTLES_DOWN(w) && !(POOL && SAFE(w)) ->
		if
		:: BATCH > LEAST -> way = LEAST
		:: way = BATCH
		fi;
		d_step {
			e = (MUTANT(ONE_TRAY) && TRAYS(DELETING) > 0 -> LOWEST(DELETING) : LOWEST(EMPTY));
			printf("-- worker %d: asks for %d into tray %d\n", w, way, e);
			tr[e].state = FETCHING;
			tr[e].asked = way;
			for (a : 1 .. way) {
				send(w, C_FETCH, e, 0, 0)
			}
			note_busy(w);
			way = 0
		} }
	:: d_step { OUR_TURN(w) && MAY_ASK_FOR_MORE(w) && SOME_AT(INGRESS) && !SETTLES_DOWN(w) ->
		e = (OPEN_TRAY(0) -> 0 : (OPEN_TRAY(1) -> 1 : 2));
		printf("-- worker %d: asks for one more into tray %d\n", w, e);
		tr[e].state = FETCHING;
		tr[e].asked = 1;
		tr[e].more = 1;
		send(w, C_FETCH, e, 0, 0);
		note_busy(w) }
	:: atomic { OUR_TURN(w) && !POOL && MAY_FETCH(w) && SETTLES_DOWN(w) && TRAYS(EMPTY) == 3 && len(wire[w]) == 0 ->
		if
		:: MAY_GET(0) -> got = 0
		:: MAY_GET(1) -> got = 1
		:: MAY_GET(2) -> got = 2
		fi;
		d_step { get_done(got); got = 0 } }

	/* a handler ends */
	:: atomic { MY_TURN(w) && ITEMS(RUNNING) > 0 && !RENEWS(w) && !AWAITS(w) && !(POISON && msg[2].running && RUNS(2)) ->
		if
		:: it[0].state == RUNNING
		:: it[1].state == RUNNING -> ran = 1
		:: it[2].state == RUNNING -> ran = 2
		:: it[3].state == RUNNING -> ran = 3
		:: it[4].state == RUNNING -> ran = 4
		:: it[5].state == RUNNING -> ran = 5
		fi;
		if
		:: way = C_NONE
		:: fault[w].fails > 0 && !(it[ran].says & ATTEMPT) -> way = C_RETRY
		:: fault[w].fails > 0 && (it[ran].says & ATTEMPT) -> way = C_ESCAPE
		:: wk[w].leaving -> way = C_BACK_REDELIVERED
		fi;
		d_step { e = ran; fault[w].fails = fault[w].fails - (way == C_RETRY || way == C_ESCAPE); end_handler(w, e / 2, e, way); turn(w); ran = 0; way = 0 } }

	/* Redis does the next command, and answers */
	:: atomic { MY_TURN(w) && wk[w].up && len(wire[w]) > 0 && !(COUNTS && wk[w].left && !ROOM) -> wire[w]?command, bytes;
		CHOOSE_WHAT_IS_FETCHED(command, got)
		fi;
		if
		:: ran = 0
		:: OTHERS && got != NOBODY && fault[w].fails > 0 -> ran = ATTEMPT
		:: OTHERS == 2 && got != NOBODY -> ran = REDELIVERED
		:: OTHERS == 2 && got != NOBODY -> ran = REDELIVERED | SOLO
		fi;
		if
		:: way = ANSWERED
		:: fault[w].refusals > 0 && IS_ACK(command) -> way = REFUSED
		:: fault[w].lost_acks > 0 && IS_ACK(command) -> way = LOST
		:: fault[w].lost_fetches > 0 && OP(command) == C_FETCH -> way = LOST
		fi;
		d_step {
			if
			:: OTHERS && got != NOBODY -> befall(w, got, ran)
			:: else
			fi;
			if
			:: way == REFUSED -> fault[w].refusals--; refuse(w, command)
			:: way == LOST ->
				perform(w, command, bytes, wk[w].previous, got);
				fault[w].lost_fetches = fault[w].lost_fetches - (OP(command) == C_FETCH);
				fault[w].lost_acks = fault[w].lost_acks - (OP(command) != C_FETCH);
				let_go(w, 0)
			:: else ->
				perform(w, command, bytes, wk[w].previous, got);
				if
				:: POOL && OP(command) == C_FETCH && got == NOBODY -> bring_nothing(w, TRAY_OF(command))
				:: POOL && OP(command) == C_RETRY -> forget_nonce(bytes >> 3)
				:: else
				fi;
				answer(w, command, got)
			fi;
			turn(w);
			command = 0; bytes = 0; got = 0; way = 0; ran = 0
		};
		if
		:: POOL && wk[w].renewing == 2 && fault[w].crashes + fault[w].cuts + fault[w].lapses == 0 -> d_step { adopt(w); turn(w) }
		:: else
		fi }
	:: d_step { OUR_TURN(w) && wk[w].refused && wk[w].registered && !MUTANT(HOLDS_FOR_EVER) -> wk[w].refused = 0; turn(w) }

	/* the trial it waited for is over */
	:: d_step { OUR_TURN(w) && wk[w].tried == 3 && trial == NOBODY && USABLE(w) -> wk[w].tried = 0; turn(w) }

	/* worker.c: an order to go */
	:: d_step { OUR_TURN(w) && wk[w].leaving && wk[w].registered && !wk[w].left && !wk[w].asking && len(wire[w]) == 0 && TRAYS(EMPTY) == 3 ->
		wk[w].left = 1; send(w, C_LEAVE, 0, 0, 0); note_for_pool(w) }
	:: d_step { OUR_TURN(w) && wk[w].leaving && !wk[w].up && ROOM -> end_worker(w, BLAMELESS, 0) }

	/* all of its supervisor dies at once, before anything else happens */
	:: atomic { wk[w].struck ->
		if
		:: way = 0
		:: wk[w].named && len(wire[w]) > 0 && LATE_ROOM -> way = 1
		fi;
		d_step {
			wk[w].struck = 0;
			if
			:: wk[w].named -> end_worker(w, VANISHED, way)
			:: else
			fi;
			way = 0
		} }

	/* what may go wrong, and what is asked of it at odd times */
	:: d_step { OUR_TURN(w) && fault[w].stops > 0 && !wk[w].leaving -> fault[w].stops--; wk[w].leaving = 1; turn(w) }
	:: d_step { OUR_TURN(w) && fault[w].relieves > 0 && (RELIEVABLE(0) || RELIEVABLE(1) || RELIEVABLE(2)) && ITEMS(RUNNING) + ITEMS(WAITING) > 0 ->
		fault[w].relieves--; relieve(w, NOBODY); turn(w) }
	:: d_step { OUR_TURN(w) && fault[w].deaths > 0 && ITEMS(RUNNING) > 1 -> fault[w].deaths--; end_all_handlers(w, C_BACK_SOLO); turn(w) }
	:: atomic { OUR_TURN(w) && fault[w].crashes > 0 && wk[w].named && !AWAITS(w) && (ROOM || (POOL && wk[w].previous != NOBODY)) -> CHOOSE_KEPT(w, way);
		d_step { fault[w].crashes--; end_worker(w, (wk[w].leaving && !MUTANT(CHARGE_AT_STOP) -> BLAMELESS : REPORTED), way); way = 0 } }
	:: atomic { OUR_TURN(w) && fault[w].cuts > 0 && wk[w].up -> CHOOSE_KEPT(w, way);
		d_step { fault[w].cuts--; let_go(w, way); note_for_pool(w); way = 0 } }
	:: d_step { OUR_TURN(w) && fault[w].lapses > 0 && wk[w].fresh -> fault[w].lapses--; lapse(w, 0) }
	:: d_step { OUR_TURN(w) && fault[w].lapses > 0 && USABLE(w) -> fault[w].lapses--; lapse(w, 1) }
	od
}
