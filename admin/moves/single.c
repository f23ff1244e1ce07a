/*
 * quredis retry QUEUE TYPE ID, quredis rm QUEUE TYPE ID: finds a delayed or waiting message by its id, and makes it the
 * next one, or deletes it. Messages come and go during the search, so the script that acts compares what it finds with
 * what was read here.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/moves/moves.h"
#include "admin/queues/queues.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define SHOWN (64 * 1024)	/* as peek: of a longer message without an id peek does not show the sha1 */
#define LOOKS 3			/* searches for a message that changes its place between the look and the script */

struct single {
	struct admin *a;
	enum queue_pick pick;
	const char *id;
	bool more;		/* the search ended before the end of a list */
	/* messages that it met and that no id names: large ones without an id in their header */
	int64_t nameless;
};

/* Where a search looks. */
struct place {
	const char *key;
	bool waits;		/* it is ingress */
	bool pushed;		/* producers delayed what is there, so no line before it is ours */
};

/* A message that a page of a place shows. It points into the answer of Redis. */
struct sight {
	const struct place *place;
	int64_t at;		/* ingress: from the pop end, -1 is the oldest; else the rank */
	const struct queue_looked *looked;
	struct message m;
};

static bool is_cut(const struct sight *s)
{
	return s->looked->size > s->looked->head.len;
}

static bool is_nameless(const struct sight *s)
{
	return is_cut(s) && s->m.id[0] == '\0';
}

static bool has_id(struct sight *s, const char *id)
{
	return !is_nameless(s) && strcmp(message_id(&s->m), id) == 0;
}

/* Names the message by all of its bytes if they are known: workers take messages meanwhile, and another one may differ
 * in the middle only. */
static void append_pick(const struct single *t, const struct sight *s)
{
	const struct queue_looked *l = s->looked;
	struct queue_entry e = { .raw = l->head.str, .len = l->size, .at = is_cut(s) ? s->at : QUEUE_ANYWHERE,
		.tail = is_cut(s) ? l->tail.str : NULL };
	struct admin *a = t->a;

	if (s->place->waits)
		queue_pick_waiting(&a->redis, &a->keys, t->pick, &e);
	else
		queue_pick_delayed(&a->redis, &a->keys, t->pick,
		    &(struct queue_delayed){ .pushed = s->place->pushed, .rank = s->at,
		    .due = l->score.str, .entry = e,
		    .strip = a->keys.shared && !s->place->pushed ? s->m.wrapper_len : 0 });
}

/* Returns 1: done; 0: it is not at that place any more; -1: error. */
static int act_on(struct single *t, const struct sight *s)
{
	struct admin *a = t->a;
	int64_t did;

	if (a->options.dry_run)
		return 1;
	append_pick(t, s);
	if (admin_integer(a, &did, s->place->key) == -1)
		return -1;
	if (did == -1)
		return admin_fail(a, EX_DATAERR, "%s: the list that held its payload does not exist any more; quredis "
		    "rm %s delayed deletes the rest", t->id, a->keys.name);
	return did == 1;
}

/* The answer to a look is gone as soon as the script has answered, so the caller ends the page then. Returns as
 * search_place(). */
static int search_page(struct single *t, const struct place *place, int64_t first, const struct redis_reply *reply,
    size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct queue_looked l;
		struct sight s = { .place = place, .at = place->waits ? first - (int64_t)i : first + (int64_t)i,
		    .looked = &l };
		int rc;

		queue_looked(reply, i, &l);
		if (!queue_looked_is_named(&l, SHOWN))
			return admin_fail(t->a, EX_PROTOCOL, "Redis sent too few bytes of an entry of %s", place->key);
		message_parse(&s.m, &t->a->keys.lines, l.head.str, l.head.len);
		t->nameless += is_nameless(&s);
		if (!has_id(&s, t->id))
			continue;
		rc = act_on(t, &s);
		return rc == 0 ? 2 : rc;
	}
	return 0;
}

/* Returns 1: found and done; 2: it was there, and has moved since; 0: not found; -1: error. */
static int search_place(struct single *t, const struct place *place)
{
	struct admin *a = t->a;
	int64_t left = a->options.search > 0 ? a->options.search : SEARCH_DEFAULT, first = place->waits ? -1 : 0;
	struct redis_reply reply;
	size_t n = 1;
	int rc = 0;

	while (rc == 0 && n > 0 && left > 0 && !interrupt_asked()) {
		queue_look(&a->redis, &(struct queue_look){ .key = place->key,
		    .apart = place->waits || place->pushed ? NULL : a->keys.delayed_apart, .sorted = !place->waits,
		    .first = first,
		    .backwards = place->waits, .most = left < ENTRIES_MAX ? left : ENTRIES_MAX,
		    .bytes = ENTRIES_STEP_BYTES, .shown = SHOWN, .ends = QUEUE_ENTRY_ENDS });
		if (admin_reply(a, &reply, place->key) == -1)
			return -1;
		n = queue_look_count(&reply);
		if (n == SIZE_MAX)
			return admin_fail(a, EX_PROTOCOL, "unexpected reply type from Redis to a look at %s",
			    place->key);
		rc = search_page(t, place, first, &reply, n);
		first += place->waits ? -(int64_t)n : (int64_t)n;
		left -= (int64_t)n;
	}
	t->more |= rc == 0 && n > 0;
	return rc;
}

/* Returns as search_place(). What producers delayed comes last. */
static int search_list(struct single *t, enum admin_list list)
{
	const struct queue_keys *k = &t->a->keys;
	int rc;

	if (list == LIST_INGRESS)
		return search_place(t, &(struct place){ .key = k->ingress, .waits = true });
	rc = search_place(t, &(struct place){ .key = k->delayed });
	return rc != 0 ? rc : search_place(t, &(struct place){ .key = k->pushed, .pushed = true });
}

static int search_again(struct single *t, enum admin_list list)
{
	int rc = 2;

	t->more = false;
	for (int look = 0; look < LOOKS && rc == 2; look++) {
		t->nameless = 0;
		rc = search_list(t, list);
	}
	return rc;
}

static int fail_to_find(struct single *t, enum admin_list list, int rc)
{
	struct admin *a = t->a;
	char *id = visible(t->id, strlen(t->id), 140);
	const char *where = admin_list_name(list);

	if (rc == 2)
		admin_fail(a, EX_TEMPFAIL, "%s changed its place in %s during each search; run the command again", id,
		    a->keys.name);
	else if (t->more)
		admin_fail(a, EX_NOINPUT,
		    "%s is not among the next %" PRId64 " messages of %s in %s; --search N looks through more", id,
		    a->options.search > 0 ? a->options.search : SEARCH_DEFAULT, a->keys.name, where);
	else if (t->nameless > 0 && strncmp(t->id, "sha1:", strlen("sha1:")) == 0)
		admin_fail(a, EX_NOINPUT,
		    "%s has no message %s in %s, unless it has more than 64 KiB: such messages (%" PRId64 ") need an "
		    "id in their header", a->keys.name, id, where, t->nameless);
	else
		admin_fail(a, EX_NOINPUT, "%s has no message %s in %s", a->keys.name, id, where);
	free(id);
	return -1;
}

/* Acts on each id, also if an earlier one is missing: another command may have been faster. */
static int act_on_ids(struct admin *a, enum queue_pick pick, enum admin_list list, struct outcome *o)
{
	struct single t = { .a = a, .pick = pick };
	int status = EX_OK;

	interrupt_begin();
	for (size_t i = 2; i < a->noperands && !interrupt_asked(); i++) {
		int rc;

		t.id = a->operands[i];
		rc = search_again(&t, list);
		o->count += rc == 1;
		if (rc == 1 || (rc != -1 && interrupt_asked()))
			continue;
		if (rc != -1)
			fail_to_find(&t, list, rc);
		status = a->status;
		if (rc == -1)
			break;
	}
	o->interrupted = interrupt_asked();
	interrupt_end();
	a->status = status;
	if (o->count > 0 || status == EX_OK)
		outcome_say(a, o);
	return status == EX_OK ? 0 : -1;
}

/* The list before the ids. The others have commands of their own. */
static int parse_list(struct admin *a, enum admin_list *list)
{
	if (strcmp(a->operands[1], "escape") == 0)
		return admin_fail(a, EX_USAGE, "dead letters have records: use quredis dlq retry or dlq rm");
	if (strcmp(a->operands[1], "transit") == 0)
		return admin_fail(a, EX_USAGE, "messages in flight belong to a worker: quredis retry %s transit "
		    "returns all those of dead ones", a->keys.name);
	return admin_list_parse(a, a->operands[1], LIST_BIT(LIST_INGRESS) | LIST_BIT(LIST_DELAYED), list);
}

int single_retry(struct admin *a)
{
	struct outcome o = { .action = "retry", .did = "to be fetched next:", .would = "would be fetched next:" };
	enum admin_list list;

	if (parse_list(a, &list) == -1)
		return -1;
	o.list = a->operands[1];
	return act_on_ids(a, QUEUE_PICK_FIRST, list, &o);
}

int cmd_rm(struct admin *a)
{
	struct outcome o = { .action = "rm", .did = "deleted", .would = "would delete", .list = a->operands[1] };
	enum admin_list list;

	if (parse_list(a, &list) == -1)
		return -1;
	if (!a->options.dry_run && confirm_messages(a, "Delete", (int64_t)a->noperands - 2, o.list, "") == -1)
		return -1;
	return act_on_ids(a, QUEUE_PICK_DELETE, list, &o);
}
