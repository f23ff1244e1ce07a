/*
 * After a doubt (a lost connection, a lease that was renewed late, counts that disagree) the worker takes a new name,
 * and Redis moves its trays to that name. Then this file reads each list, and makes the worker's tray equal to it.
 *
 * After a doubt, each of these may be true. Redis executed a command that it did not answer, or it never will: a late
 * command of the old connection names trays of the old name, which are empty, so it reaches nothing. A sweeper that
 * considered the worker dead has returned messages of its trays, and another worker may run them. Another client has
 * removed a message. Redis has returned to an earlier state (a restart from an older copy, a failover), so that a tray
 * holds a message again that had left it by a retry, a hand-back or an escape. Redis undid that move at both ends, so
 * the tray holds the only copy. The worker therefore trusts nothing that it remembers about a tray before it has read
 * the list:
 *
 *	the list has	the worker believes	the worker
 *	it		it is in the tray	keeps the item; sends an unanswered move again
 *	not		a move is unanswered	takes the move for done
 *	not		a DEL is unanswered	takes the DEL for done
 *	not		it is in the tray	has lost its claim: another owner has the message
 *	it		no record of it		adds it: an answer to a fetch was lost, or the message reappeared
 *
 * If a fetch went into a tray whose messages ran, it may have brought a message that is equal to one of these, which a
 * sweeper had taken meanwhile. So the worker believes nothing of such a tray unless Redis says that no sweeper took
 * anything.
 *
 * The order of the steps is safe for these reasons. The worker sends INFO, the renewal, which moves the trays in the
 * same script, and then the reads, all on one connection. Only this worker writes to trays of the new name, and it
 * starts, moves and deletes nothing before session_adopted(), which follows the last list: so each list still holds
 * when it is used. The worker matches messages that are certainly in the tray before messages in doubt, because
 * messages may be equal: if one of two has left, it is the one whose move was under way. It adds unknown messages last,
 * since a message is unknown only if it matched no item. The worker may count a move as done, because the script that
 * copies a message also removes it from its tray. It may count a claim as lost: at worst the sweeper has returned the
 * message, and the message runs a second time.
 *
 * A message that reappeared may have run before: it runs again, marked as redelivered, and the worker logs
 * messages_reappeared. The worker never sends a DEL again that it sent before the doubt: the tray may hold other
 * messages now. It reopens the tray instead, and deletes only messages that it has just read there and that are done.
 */
#include <stdlib.h>
#include <string.h>

#include "worker/worker.h"

#include "common/queue/queue.h"

#define ITEMS_MAX (2 * BATCH_MAX)	/* items of a tray, including those in state GONE */

/* The list as Redis returned it, oldest first. matched: this entry is one of our items. */
struct listed {
	const struct adopted *all;
	size_t n;
	bool matched[BATCH_MAX];
	bool distrusted;		/* any of the entries may have run before */
};

/* Matches the oldest equal entry that is not matched yet. false: there is none. */
static bool match_entry(struct listed *list, const struct tray *t, const struct item *item)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct adopted *entry = &list->all[i];

		if (!list->matched[i] && entry->len == item->len &&
		    memcmp(entry->raw, tray_raw(t, item), item->len) == 0) {
			list->matched[i] = true;
			return true;
		}
	}
	return false;
}

static void claim_lost(struct worker *w, struct place p)
{
	struct item *item = tray_item(&w->trays, p);

	atomic_fetch_add(&w->env->slot->counters[COUNT_CLAIM_LOST], 1);
	log_warning("claim_lost", log_str("tray", w->session.owner.trays[p.tray]), log_int("messages", 1));
	if (item->state == ITEM_RUNNING) {
		tray_lose(&w->trays, p);
		fence_claim_lost(&w->fence);
	} else {
		mover_gone(w, p);
	}
}

static bool in_doubt(const struct item *item)
{
	return item->state == ITEM_MOVING && item->sent;
}

/*
 * First matches the items that certainly did not move, then (match_in_doubt()) those whose move is in doubt. Of equal
 * messages only one is in doubt, or all have one plain move (equal_may_leave()), so a move that is sent again takes
 * its own message, or one as good.
 */
static void match_certain(struct worker *w, int tray, struct listed *list)
{
	struct tray *t = &w->trays.tray[tray];

	for (int i = 0; i < t->n; i++) {
		struct item *item = &t->items[i];

		if (item->state == ITEM_GONE || item->lost || in_doubt(item) || match_entry(list, t, item))
			continue;
		if (t->sent)		/* the DEL worked, and its answer was lost */
			mover_gone(w, (struct place){ tray, i });
		else
			claim_lost(w, (struct place){ tray, i });
	}
}

static void match_in_doubt(struct worker *w, int tray, struct listed *list)
{
	struct tray *t = &w->trays.tray[tray];

	for (int i = 0; i < t->n; i++) {
		if (!in_doubt(&t->items[i]))
			continue;
		if (match_entry(list, t, &t->items[i]))
			tray_move_sent(&w->trays, (struct place){ tray, i }, false);	/* mover.c sends it again */
		else
			mover_gone(w, (struct place){ tray, i });
	}
}

/*
 * The tray holds more messages than a worker ever fetches, so another client writes there. exit() leaves the trays as
 * they are, as a death does: the sweeper returns all of it, uncharged.
 */
static _Noreturn void unexpected(const struct worker *w, int tray)
{
	log_error("tray_unexpected", log_str("tray", w->session.owner.trays[tray]));
	exit(CHILD_EXIT_UNSETTLED);
}

static int count_unknown(const struct listed *list)
{
	int n = 0;

	for (size_t i = 0; i < list->n; i++)
		n += !list->matched[i];
	return n;
}

/* false: it restarted or was promoted meanwhile, so it may have returned to an earlier state. */
static bool is_same_server(const struct worker *w)
{
	return redis_identity_known(&w->session.server) && redis_identity_same(&w->adoption.server, &w->session.server);
}

/* The worker's own messages may be gone, and equal ones have come. */
static bool is_distrusted(const struct worker *w, const struct tray *t)
{
	return t->refilled && !w->session.untouched;
}

static void lose_all_claims(struct worker *w, int tray)
{
	struct tray *t = &w->trays.tray[tray];

	for (int i = 0; i < t->n; i++)
		if (t->items[i].state != ITEM_GONE && !t->items[i].lost)
			claim_lost(w, (struct place){ tray, i });
}

/*
 * A fetch whose answers were lost explains the newest of the unknown messages, one for each answer that is missing. All
 * others (`again`) reappeared: they left the tray once, or the worker never asked for them. On a server that may have
 * returned to an earlier state, a message that a fetch would explain may be one that reappeared, too: all run marked as
 * redelivered.
 */
static void add_unknown(struct worker *w, int tray, const struct listed *list)
{
	struct tray *t = &w->trays.tray[tray];
	int again = count_unknown(list) - (t->asked - t->answered), added = 0;

	if (t->n + count_unknown(list) > ITEMS_MAX)
		unexpected(w, tray);
	for (size_t i = 0; i < list->n; i++) {
		const struct adopted *entry = &list->all[i];

		if (list->matched[i])
			continue;
		fetcher_received(w, tray_add(&w->trays, tray, entry->raw, entry->len,
		    added++ < again || list->distrusted || !is_same_server(w)));
	}
	if (again > 0 && !list->distrusted)
		log_warning("messages_reappeared",
		    log_str("tray", w->session.owner.trays[tray]), log_int("messages", again));
	if (again > 0 || list->distrusted)
		tray_mix(&w->trays, tray);
	if (added > 0 && (w->env->keys.shared || t->doubtful))
		tray_set_notes(&w->trays, tray, NOTES_WANTED);
}

void adopt_tray(struct worker *w, int tray, const struct adopted *all, size_t n)
{
	struct tray *t = &w->trays.tray[tray];
	struct listed list = { .all = all, .n = n, .distrusted = is_distrusted(w, t) };

	if (n > BATCH_MAX)
		unexpected(w, tray);
	if (list.distrusted)
		lose_all_claims(w, tray);
	match_certain(w, tray, &list);
	match_in_doubt(w, tray, &list);
	add_unknown(w, tray, &list);
	if (t->state == TRAY_DELETING)
		mover_reopen_tray(w, tray);
	if (t->state == TRAY_FETCHING || (t->state == TRAY_EMPTY && t->n > 0))
		tray_filled(&w->trays, tray);
	tray_close(&w->trays, tray);
	if (tray == QUEUE_TRAYS - 1) {
		w->adoption.server = w->session.server;
		session_adopted(w);
	}
}

void adopt_read_trays(struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++) {
		queue_list(&w->session.redis, w->session.owner.trays[i], 0, -1);
		session_expect(w, ANSWER_ADOPT, i, 0, w->now_us / 1000 + REDIS_TIMEOUT_MS);
	}
}

/* The answer has the newest message first. */
void adopt_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	struct adopted all[BATCH_MAX];

	if (!redis_is_strings(reply)) {
		session_drop(w, reply, now_ms);
		return;
	}
	for (size_t i = 0; i < reply->n && i < BATCH_MAX; i++) {
		struct redis_reply entry = redis_element(reply, reply->n - 1 - i);

		all[i] = (struct adopted){ entry.str, entry.len };
	}
	adopt_tray(w, of.tray, all, reply->n);
}
