/*
 * quredis as a model: who may lose, double or mistake a message. docs/model.md says what it shows.
 */

#define WORKERS 2
#define INCARNATIONS 4	/* two names of now, and two of before, at a time: of those that are gone without a trace the names are used again */
#define LATE 2		/* connections that were given up, at a time, of which something is under way still */

/* ---- bounds: read at the start, so that one program is enough ---- */

typedef bounds {
	unsigned mutant : 5;
	unsigned least : 2;	/* a fetch asks for so many at least */
	unsigned batch : 2;	/* and at most */
	unsigned messages : 2;
	unsigned window : 2;	/* of handlers */
	unsigned open : 1;	/* a tray whose messages run takes more of them */
	unsigned kills : 1;	/* fence = "kill" */
	unsigned workers : 2;	/* 1: the other one does nothing */
	unsigned victims : 2;	/* how many workers may be struck */
	unsigned late : 2;	/* so many connections that were given up may still bring something, at a time */
	unsigned eager : 1;	/* reduced: docs/model.md */
	unsigned others : 2;	/* with pool: one worker, and its messages as others leave them: 1: a handler failed, 2: they crashed, too, or lapsed */
	unsigned pool : 1;	/* reduced further, and late=0 */
	unsigned outages : 1;	/* some were asked for */
	unsigned poison : 1;	/* message 2 kills its supervisor whenever it runs: that is what the outages are */
	unsigned counts : 1;	/* Redis may return to an earlier state: what leaves a tray alive is counted */
	unsigned ends : 1	/* of the faults any may also not happen */
};
bounds bound;

#define BATCH bound.batch
#define LEAST bound.least
#define WINDOW bound.window
#define EAGER bound.eager
#define POOL bound.pool
#define OTHERS bound.others
#define OPEN bound.open
#define KILLS bound.kills
#define OUTAGES bound.outages
#define POISON bound.poison
#define COUNTS bound.counts

#define SHARED_LIST 1
#define REMOVE_FIRST 2
#define UNDO_ALWAYS 3
#define ONE_TRAY 4
#define RESCUE_IN_PLACE 5
#define NO_ADOPTION 6
#define LEASE_RECREATED 7
#define BLAME_TAIL 8
#define FIRST_SENT_IS_THERE 9
#define FORGETS_PREVIOUS 10
#define BLAME_BY_TRAY 11
#define DOUBTFUL_FIRST 12
#define RENAMES_AGAIN 13
#define ONLY_WHERE_EMPTY 14
#define TAKES_FROM_RESCUE 15
#define RELIEVES_ALL 16
#define HOLDS_FOR_EVER 17
#define KEEPS_RESCUE 18
#define LETS_RUN 19
#define CHARGE_AT_STOP 20
#define OUTAGE_CHARGES_ALL 21
#define TRIALS_TOGETHER 22
#define DELETES_BY_BELIEF 23
#define COUNTS_NOTHING 24
#define CLOSES_WHILE_FETCHING 25
#define TRUSTS_ITS_ITEMS 26
#define ACKNOWLEDGES_ANY 27

/* How often each may happen still. */
typedef faults {
	unsigned crashes : 2;
	unsigned cuts : 2;
	unsigned lost_acks : 2;
	unsigned lost_fetches : 2;
	unsigned lapses : 2;
	unsigned stops : 2;
	unsigned relieves : 2;
	unsigned deaths : 2;
	unsigned refusals : 2;
	unsigned fails : 2	/* of handlers */
};
/* Whose they are is settled at the start, in each way there is: so one whose faults are over is known to be safe. */
faults fault[WORKERS];
byte pushes;
byte outages;		/* deaths of the whole supervisor that may come still */
byte trial;		/* which worker tries a message: a word on the scoreboard */
bit outage_charged;	/* for the properties: the last one charged a message */
byte rollbacks;		/* returns to an earlier state that may come still */

#define FAULTS(w) (fault[w].crashes + fault[w].cuts + fault[w].lost_acks + fault[w].lost_fetches + fault[w].lapses + fault[w].stops + \
	fault[w].relieves + fault[w].deaths + fault[w].refusals + fault[w].fails)
#define SAFE(w) (FAULTS(w) == 0 && outages == 0)
#define STRUCK (wk[0].struck || wk[WORKERS - 1].struck)

c_code {
	/* "crashes=2": dealt out later. "crashes=1+1": one of the one worker, one of the other. */
	static unsigned char of_worker(const char *name, int w)
	{
		const char *all = getenv("QUREDIS_MODEL"), *p = all;
		size_t len = strlen(name);

		for (; p != NULL && (p = strstr(p, name)) != NULL; p++)
			if ((p == all || p[-1] == ' ') && p[len] == '=') {
				p += len + 1;
				if (w == 0)
					return (unsigned char)atoi(p);
				p += strspn(p, "0123456789");
				return *p == '+' ? (unsigned char)atoi(p + 1) : 0;
			}
		return 0;
	}
};

#include "bounds.pml"
#include "redis.pml"

#define ROOM (!inc[INCARNATIONS - 1].used || (POOL && !inc[WORKERS].used))
#define LATE_ROOM (bound.late > 0 && late[bound.late - 1].name == NOBODY)

/*
 * Reduction. What a worker does that nothing can strike any more, and that concerns nobody else (the end of its handler, what
 * it acknowledges, retries, lets escape), comes before anything else does.
 *
 * With pool, ingress is a pool from which a fetch brings any message or nothing: so it is all the same when one comes back to it, and
 * whatever a worker does or suffers, and what is done to its names, concerns nobody else, but for what it takes from the pool. All
 * of it comes first, the one worker's before the other's, until both are about to take something.
 */
#define BUSY(w) (wk[w].busy || (wk[w].asks && !SAFE(w) && SOME_LEFT(w)))
#define HASTENS(w) (POOL -> BUSY(w) && !KILLS : wk[w].busy && SAFE(w) && !COMES_LATE(w))
/* It may take a message for its twin, which somebody else has. */
#define DOUBTS(w) (wk[w].robbed && ((LIES_WITH(0, w) && msg[0].says == 0) || (LIES_WITH(1, w) && msg[1].says == 0)))
#define IN_DOUBT_OF_TWINS (POOL && (DOUBTS(0) || DOUBTS(1)))
/* With pool: what nobody else touches is returned before anything else; to the pool, from where it comes when it will. */
#define HAS_LEFT (POOL && !MUTANT(RESCUE_IN_PLACE) && \
	((inc[WORKERS].used && wk[0].previous != WORKERS) || (inc[INCARNATIONS - 1].used && wk[WORKERS - 1].previous != INCARNATIONS - 1)))
#define CALM (!STRUCK && (!EAGER || (!HAS_LEFT && (!(HASTENS(0) || HASTENS(1)) || IN_DOUBT_OF_TWINS))))
#define MY_TURN(w) (!STRUCK && (!EAGER || (!HAS_LEFT && ((w == 0 -> HASTENS(0) || !HASTENS(1) : !HASTENS(0)) || IN_DOUBT_OF_TWINS))))
/* What goes with it only if all of a worker's steps do. */
#define OUR_TURN(w) (POOL -> MY_TURN(w) : CALM)

#include "worker.pml"
#include "sweeper.pml"
#include "worker_process.pml"

#define SETTLED(w) (SETTLES_DOWN(w) && USABLE(w) && !wk[w].holds && len(wire[w]) == 0)

/* It has nothing in hand, but there is something in its trays. */
#define FORGOT(w) (USABLE(w) && !wk[w].holds && len(wire[w]) == 0 && !wk[w].renewing && !inc[w].rescue && TRAYS_HOLD(w) > 0)

inline end_all()
{
	for (m : 0 .. MESSAGES - 1) {
		if
		:: AT(m, INGRESS) || AT(m, DELAYED) -> get_done(m)
		:: else
		fi
	}
	must(ALL_ENDED, left_over)
}

/* Networks, producers, and the end. */
proctype World()
{
	byte c, command, bytes, got;

end:	do
	/* what was sent on a connection that was given up */
	:: atomic { CALM && (len(wire[WORKERS]) > 0 || len(wire[WORKERS + LATE - 1]) > 0) ->
		if
		:: len(wire[WORKERS]) > 0
		:: len(wire[WORKERS + LATE - 1]) > 0 -> c = LATE - 1
		fi;
		wire[WORKERS + c]?command, bytes;
		CHOOSE_WHAT_IS_FETCHED(command, got)
		fi;
		d_step {
			perform(late[c].name, command, bytes, late[c].instead, got);
			late_is_over();
			tidy();
			c = 0; command = 0; bytes = 0; got = 0
		} }

	/* a copy of Redis is made, and Redis returns to it at any later time. Each worker loses its connection then, or notices nothing */
	:: d_step { !STRUCK && rollbacks > 0 && !older.is -> rollbacks--; keep() }
	:: atomic { !STRUCK && older.is ->
		if
		:: c = 0
		:: c = 1
		:: c = 2
		:: c = 3
		fi;
		d_step {
			go_back();
			if
			:: (c & 1) && wk[0].up -> let_go(0, 0)
			:: else
			fi;
			if
			:: (c & 2) && wk[WORKERS - 1].up -> let_go(WORKERS - 1, 0)
			:: else
			fi;
			c = 0
		} }

	:: d_step { CALM && pushes > 0 -> pushes--; e = (AT(0, NOWHERE) -> 0 : (AT(1, NOWHERE) -> 1 : 2)); msg[e].place = INGRESS }

	/* everything dies at once. The one before is over: what it left has been returned */
	:: d_step { CALM && outages > 0 && !inc[WORKERS].used && !inc[INCARNATIONS - 1].used && (!POISON || msg[2].running) ->
		outages--; outage_charged = 0; wk[0].struck = 1; wk[WORKERS - 1].struck = 1 }

	/* the reduction: nobody has anything in hand, and nothing can disturb anybody */
	:: d_step { EAGER && SETTLED(0) && SETTLED(1) && !inc[WORKERS].used && !inc[INCARNATIONS - 1].used && pushes == 0 && SAFE(0) && SAFE(1) &&
		!ALL_ENDED -> end_all() }

	/* a fetch that brings nothing can be followed by another for ever, so that a run may have no end: this would be its end */
	:: d_step { POOL && (FORGOT(0) || FORGOT(1)) -> must(false, left_over) }

	/* nothing can happen any more */
	:: timeout -> break
	od;
	must(ALL_ENDED, left_over)
}

/* Some of the faults are the other worker's, or nobody's. */
#define DEAL(kind) \
	do \
	:: fault[0].kind > 0 && bound.victims > 1 -> fault[0].kind--; fault[1].kind++ \
	:: fault[0].kind > 0 && bound.ends -> fault[0].kind-- \
	:: break \
	od

#define MOSTLY(w) (fault[w].crashes * 64 + fault[w].lapses * 16 + fault[w].lost_acks * 4 + fault[w].lost_fetches)

inline deal_all()
{
	DEAL(crashes);
	DEAL(cuts);
	DEAL(lost_acks);
	DEAL(lost_fetches);
	DEAL(lapses);
	DEAL(stops);
	DEAL(relieves);
	DEAL(deaths);
	DEAL(refusals);
	DEAL(fails);
	skip;	/* a step may not begin where a loop ends. Workers are alike */
	d_step {
		if
		:: MOSTLY(0) < MOSTLY(1) ->
			x = fault[0].crashes; fault[0].crashes = fault[1].crashes; fault[1].crashes = x;
			x = fault[0].cuts; fault[0].cuts = fault[1].cuts; fault[1].cuts = x;
			x = fault[0].lost_acks; fault[0].lost_acks = fault[1].lost_acks; fault[1].lost_acks = x;
			x = fault[0].lost_fetches; fault[0].lost_fetches = fault[1].lost_fetches; fault[1].lost_fetches = x;
			x = fault[0].lapses; fault[0].lapses = fault[1].lapses; fault[1].lapses = x;
			x = fault[0].stops; fault[0].stops = fault[1].stops; fault[1].stops = x;
			x = fault[0].relieves; fault[0].relieves = fault[1].relieves; fault[1].relieves = x;
			x = fault[0].deaths; fault[0].deaths = fault[1].deaths; fault[1].deaths = x;
			x = fault[0].fails; fault[0].fails = fault[1].fails; fault[1].fails = x;
			x = fault[0].refusals; fault[0].refusals = fault[1].refusals; fault[1].refusals = x
		:: else
		fi;
		x = 0
	}
}

init {
	d_step {
		c_code {
			now.bound.mutant = of_environment("mutant", 0);
			now.bound.least = of_environment("least", 1);
			now.bound.batch = of_environment("batch", 2);
			now.bound.window = of_environment("window", 1);
			now.bound.open = of_environment("open", 0);
			now.bound.kills = of_environment("kills", 0);
			now.bound.workers = of_environment("workers", WORKERS);
			now.bound.messages = of_environment("messages", MESSAGES);
			now.bound.others = of_environment("others", 0);
			now.bound.pool = now.bound.others || of_environment("pool", 0);
			now.bound.late = now.bound.pool ? 0 : of_environment("late", LATE);
			now.bound.eager = now.bound.pool || of_environment("eager", 0);
			now.bound.victims = now.bound.others ? 1 : of_environment("victims", 2);
			now.bound.ends = of_environment("ends", 0);
			now.pushes = of_environment("pushes", 0);
			now.outages = of_environment("outages", 0);
			now.bound.outages = now.outages > 0;
			now.bound.poison = of_environment("poison", 0);
			now.rollbacks = of_environment("rollbacks", 0);
			now.bound.counts = now.rollbacks > 0;
			now.fault[0].crashes = of_worker("crashes", 0);
			now.fault[1].crashes = of_worker("crashes", 1);
			now.fault[0].cuts = of_worker("cuts", 0);
			now.fault[1].cuts = of_worker("cuts", 1);
			now.fault[0].lost_acks = of_worker("lost_acks", 0);
			now.fault[1].lost_acks = of_worker("lost_acks", 1);
			now.fault[0].lost_fetches = of_worker("lost_fetches", 0);
			now.fault[1].lost_fetches = of_worker("lost_fetches", 1);
			now.fault[0].lapses = of_worker("lapses", 0);
			now.fault[1].lapses = of_worker("lapses", 1);
			now.fault[0].stops = of_worker("stops", 0);
			now.fault[1].stops = of_worker("stops", 1);
			now.fault[0].relieves = of_worker("relieves", 0);
			now.fault[1].relieves = of_worker("relieves", 1);
			now.fault[0].deaths = of_worker("deaths", 0);
			now.fault[1].deaths = of_worker("deaths", 1);
			now.fault[0].refusals = of_worker("refusals", 0);
			now.fault[1].refusals = of_worker("refusals", 1);
			now.fault[0].fails = of_worker("fails", 0);
			now.fault[1].fails = of_worker("fails", 1);
		};
		/* The reductions assume that nothing is undone, and a push that is undone is lost: both do not go with rollbacks. */
		assert(!COUNTS || (!EAGER && pushes == 0 && bound.messages < MESSAGES));
		for (x : 0 .. MESSAGES - 1) {
			n = (COUNTS && x > 0 -> x - 1 : x);		/* with rollbacks the messages are 0 and 2, which are not equal */
			msg[x].place = (n >= bound.messages || (COUNTS && x == 1) -> DONE : (n < bound.messages - pushes || POOL -> INGRESS : NOWHERE))
		}
		for (x : 0 .. LATE - 1) {
			late[x].name = NOBODY; late[x].instead = NOBODY
		}
		for (x : 0 .. WORKERS - 1) {
			inc[x].used = 1; inc[x].lease = 1; inc[x].registered = 1;
			wk[x].up = 1; wk[x].named = 1; wk[x].previous = NOBODY;
			wk[x].confirmed = 1; wk[x].registered = 1; wk[x].fresh = 1; wk[x].asks = POOL; wk[x].untouched = OPEN
		}
		if
		:: POOL -> pushes = 0
		:: else
		fi;
		trial = NOBODY;
		x = 0
	};
	atomic {
		deal_all();
		run Worker(0); run Worker(1); run Sweeper(); run World()
	}
}
