/*
 * The sweeper, as far as messages move: who is taken for dead, what is fenced, returned and charged; what is due.
 * All it remembers is who is being rescued, and how that became known; so its own death changes nothing, nor does
 * another sweeper beside it.
 *	sweeper/rescue/rescue.c deaths.c dead.c watch.c recover.c due.c
 */

#define REFERS(w, i) ((i) == (w) || wk[w].previous == (i))
#define LIVES(i) (REFERS(0, i) || REFERS(WORKERS - 1, i))
/* By its own clock its lease is good still. */
#define COUNTS_ON(i) ((REFERS(0, i) && wk[0].fresh) || (REFERS(WORKERS - 1, i) && wk[WORKERS - 1].fresh))

inline note_robbed(i)
{
	for (z : 0 .. WORKERS - 1) {
		if
		:: z == i && wk[z].renewing == 2 -> wk[z].robbed = 2
		:: REFERS(z, i) && !(z == i && wk[z].renewing == 2) && wk[z].robbed == 0 -> wk[z].robbed = 1
		:: else
		fi
	}
	z = 0	/* a step may not end with a loop */
}

/* rescue_judge(), and return.lua or escape.lua. */
inline give_back(i, which)
{
	printf("-- sweeper: gives back %d of name %d\n", which, i);
	n = ((inc[i].rescue == CHARGED || (inc[i].rescue == OUTAGE && (inc[i].tried == 1 + (which) || MUTANT(OUTAGE_CHARGES_ALL)))) && (MUTANT(BLAME_TAIL) -> HOW_MANY_AT(RESCUE(i)) + TRAYS_HOLD(i) : inc[i].size) == 1);
	must(!(n && (msg[which].innocent || (POISON && which != 2))) || returned, innocent_charged);
	must(!(n && inc[i].ordered) || returned, charged_at_stop);
	must(!(n && inc[i].rescue == OUTAGE && outage_charged) || returned, two_charged_by_one_outage);
	outage_charged = outage_charged || (OUTAGES && n && inc[i].rescue == OUTAGE);
	msg[which].innocent = 0;
	msg[which].succeeded = 0;
	if
	:: n && (msg[which].says & CRASHED) -> end_message(which, ESCAPE)
	:: else ->
		msg[which].place = INGRESS;
		flag(which);
		msg[which].says = msg[which].says | (n -> CRASHED : (inc[i].size == 1 && inc[i].rescue != OUTAGE -> 0 : SOLO));
		/* without outages this never reaches what makes a difference: no configuration has two lapses */
		msg[which].says = msg[which].says + ONE_OUTAGE * (OUTAGES && !n && inc[i].rescue == OUTAGE && OUTAGES_OF(msg[which].says) < 2)
	fi
}

/* fence.lua; then all of it is returned. What lies in the rescue list only the sweeper can reach: so that is one step. */
inline fence(i, k)
{
	printf("-- sweeper: fences tray %d of name %d\n", k, i);
	must(!(inc[i].lease && LIVES(i)) || returned, taken_with_lease);
	note_robbed(i);
	n = (MUTANT(BLAME_BY_TRAY) -> HOW_MANY_AT(TRAY(i, k)) : TRAYS_HOLD(i));
	inc[i].size = (n > inc[i].size -> n : inc[i].size);
	inc[i].lease = 0;
	rename(TRAY(i, k), RESCUE(i));
	for (m : 0 .. MESSAGES - 1) {
		if
		:: AT(m, RESCUE(i)) && !MUTANT(KEEPS_RESCUE) -> give_back(i, m)
		:: else
		fi
	}
	m = 0	/* a step may not end with a loop */
}

/* mark_dead.lua */
inline mark_dead(i)
{
	printf("-- sweeper: name %d is done with\n", i);
	inc[i].rescue = 0;
	inc[i].dead = 0;
	inc[i].size = 0;
	inc[i].lease = 0;
	inc[i].died = inc[i].registered;
	tidy()
}

/* An ordered stop charges nobody: Redis knows of it, or the master that gave the order. */
#define OF_DEATH(i) (inc[i].died || inc[i].dead == BLAMELESS || (inc[i].stopping && !MUTANT(CHARGE_AT_STOP)) -> UNCHARGED : \
	(inc[i].dead == VANISHED && !(inc[i].stopping && MUTANT(CHARGE_AT_STOP)) -> OUTAGE : CHARGED))
/*
 * Why it is to be rescued, 0: it is not. It was reported; its lease has run out (and at once two looks have found that: what
 * happens between is the same as if it happened before); something arrived late.
 */
#define WHY(i) (inc[i].rescue -> inc[i].rescue : (inc[i].dead -> OF_DEATH(i) : \
	(inc[i].registered && !inc[i].died && !COUNTS_ON(i) -> OUTAGE : \
	(inc[i].registered && inc[i].died && TRAYS_HOLD(i) > 0 -> UNCHARGED : 0))))

/* Nobody else touches anything of it any more. */
#define IS_LEFT_ALONE(i) (!LIVES(i) && !COMES_LATE(i) && !MUTANT(RESCUE_IN_PLACE))

#define IS_LEFT(i) (inc[i].used && IS_LEFT_ALONE(i) && WHY(i))
#define TAKES_FOR_DEAD(i) (!IS_LEFT_ALONE(i) && !inc[i].rescue && WHY(i))
#define FENCES(i) (inc[i].rescue && TRAYS_HOLD(i) > 0 && !MUTANT(RESCUE_IN_PLACE))
#define HAS_RESCUED(i) (inc[i].rescue && TRAYS_HOLD(i) == 0 && inc[i].page == 0)
/* With pool: it does not matter when it is done with. */
#define NOTHING_COMES(i) (POOL && !MUTANT(RESCUE_IN_PLACE) && inc[i].rescue && TRAYS_HOLD(i) == 0 && len(wire[(i) % WORKERS]) == 0)
#define READS_TRAYS(i) (MUTANT(RESCUE_IN_PLACE) && inc[i].rescue && inc[i].page == 0 && TRAYS_HOLD(i) > 0)
#define HAS_READ(i) (inc[i].page != 0)

#define SOME_NAME(P) (P(0) || P(1) || P(2) || P(3))
#define CHOOSE_NAME(P) \
	if \
	:: P(0) -> i = 0 \
	:: P(1) -> i = 1 \
	:: P(2) -> i = 2 \
	:: P(3) -> i = 3 \
	fi

/* With pool: each worker's names have numbers of their own. */
#define CONCERNS(i) (TAKES_FOR_DEAD(i) || FENCES(i) || HAS_RESCUED(i))
#define SOME_NAME_OF_0(P) (P(0) || P(2))
#define SOME_NAME_OF_1(P) (P(1) || P(3))
#define CHOOSE_NAME_IN_TURN(P) \
	if \
	:: OUR_TURN(0) && P(0) -> i = 0 \
	:: OUR_TURN(1) && P(1) -> i = 1 \
	:: OUR_TURN(0) && P(2) -> i = 2 \
	:: OUR_TURN(1) && P(3) -> i = 3 \
	fi

inline rescue_at_once(i)
{
	e = WHY(i);
	inc[i].rescue = e;
	inc[i].lease = 0;
	for (k1 : 0 .. 2) {
		if
		:: SOME_AT(TRAY(i, k1)) -> fence(i, k1)
		:: else
		fi
	}
	mark_dead(i)
}

inline take_for_dead(i)
{
	printf("-- sweeper: takes name %d for dead\n", i);
	e = WHY(i);
	inc[i].rescue = e;
	if
	:: !inc[i].dead && !inc[i].died -> inc[i].lease = 0
	:: else
	fi;
	if	/* whatever the answer will be, it cannot be good */
	:: POOL && REFERS((i) % WORKERS, i) && !inc[i].lease && !MUTANT(LEASE_RECREATED) -> wk[(i) % WORKERS].asking = 0
	:: else
	fi
}

inline return_read(i)
{
	e = (inc[i].page & 1 -> 0 : (inc[i].page & 2 -> 1 : 2));
	inc[i].page = inc[i].page & ~(1 << e);
	must(LIES(e, i), returned_twice);
	give_back(i, e)
}

proctype Sweeper()
{
	byte i;

end:	do
	:: atomic { (POOL || CALM) && SOME_NAME(IS_LEFT) -> CHOOSE_NAME(IS_LEFT); d_step { rescue_at_once(i); i = 0 } }
	:: atomic { (OUR_TURN(0) && SOME_NAME_OF_0(CONCERNS)) || (OUR_TURN(1) && SOME_NAME_OF_1(CONCERNS)) ->
		CHOOSE_NAME_IN_TURN(CONCERNS);
		if
		:: TAKES_FOR_DEAD(i) -> d_step { take_for_dead(i) }
		:: FENCES(i) -> d_step { e = (SOME_AT(TRAY(i, 0)) -> 0 : (SOME_AT(TRAY(i, 1)) -> 1 : 2)); fence(i, e) }
		:: HAS_RESCUED(i) -> d_step { mark_dead(i) }
		fi;
		if
		:: NOTHING_COMES(i) -> d_step { mark_dead(i); i = 0 }
		:: else -> i = 0
		fi }
	/* due.lua */
	:: d_step { AT(0, DELAYED) && OUR_TURN(msg[0].nonce > MESSAGES) -> msg[0].place = INGRESS; msg[0].nonce = 0 }
	:: d_step { AT(1, DELAYED) && OUR_TURN(msg[1].nonce > MESSAGES) -> msg[1].place = INGRESS; msg[1].nonce = 0 }
	:: d_step { AT(2, DELAYED) && OUR_TURN(msg[2].nonce > MESSAGES) -> msg[2].place = INGRESS; msg[2].nonce = 0 }
	/* a mutant's */
	:: atomic { SOME_NAME(READS_TRAYS) -> CHOOSE_NAME(READS_TRAYS);
		d_step { inc[i].page = LIES(0, i) | LIES(1, i) << 1 | LIES(2, i) << 2; note_robbed(i); i = 0 } }
	:: atomic { SOME_NAME(HAS_READ) -> CHOOSE_NAME(HAS_READ); d_step { return_read(i); i = 0 } }
	od
}
