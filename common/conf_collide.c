/*
 * No two queues may touch the same key in Redis, whatever suffix it gets. Each queue claims its three lists,
 * what is made of them, and all names that begin with a list's prefix; claims are sorted, so that those that
 * collide stand next to each other.
 */
#include <stdlib.h>
#include <string.h>

#include "common/conf.h"

#include "common/alloc.h"
#include "common/conf_load.h"
#include "common/nitems.h"

struct claim {
	char *name;
	bool prefix;		/* every key that begins so */
	int queue;		/* index; -1: quredis itself */
	const char *key;	/* "ingress", "transit" or "escape" */
};

struct claims {
	struct conf_loading *l;
	struct claim *list;
	size_t n;
	bool *told;		/* of queues: one report each is enough */
};

/* A '*' at the end stands for anything. All keys of DESIGN 3, "What is in Redis". */
static const char *const ingress_keys[] = { "", ":delayed", ":delayed:apart", ":delayed:apart:*", ":done", ":stats", ":paused", ":sweeper", ":notes", ":rate:*" };
static const char *const transit_keys[] = { "", ":*" };
static const char *const escape_keys[] = { "", ":log", ":forwarded", ":claimed" };

static void add(struct claims *c, const char *base, const char *suffix, int queue, const char *key)
{
	char *name = alloc_format("%s%s", base, suffix);
	size_t len = strlen(suffix);
	bool prefix = len > 0 && suffix[len - 1] == '*';

	if (prefix)
		name[strlen(name) - 1] = '\0';
	c->list = alloc_resize(c->list, c->n + 1, sizeof(*c->list));
	c->list[c->n++] = (struct claim){ name, prefix, queue, key };
}

static void add_queue(struct claims *c, int queue)
{
	const struct conf_queue *q = c->l->conf->queues[queue];

	if (q->ingress == NULL || q->transit == NULL || q->escape == NULL)
		return;
	for (size_t i = 0; i < nitems(ingress_keys); i++)
		add(c, q->ingress, ingress_keys[i], queue, "ingress");
	for (size_t i = 0; i < nitems(transit_keys); i++)
		add(c, q->transit, transit_keys[i], queue, "transit");
	for (size_t i = 0; i < nitems(escape_keys); i++)
		add(c, q->escape, escape_keys[i], queue, "escape");
}

/* So a prefix stands before all that it covers, or among its equals. */
static int compare(const void *a, const void *b)
{
	return strcmp(((const struct claim *)a)->name, ((const struct claim *)b)->name);
}

/* a does not come after b. The keys made of one list are meant to go together. */
static bool collide(const struct claim *a, const struct claim *b)
{
	return a->prefix ? strncmp(a->name, b->name, strlen(a->name)) == 0 : strcmp(a->name, b->name) == 0;
}

static bool same_list(const struct claim *a, const struct claim *b)
{
	return a->queue == b->queue && strcmp(a->key, b->key) == 0;
}

static const struct conf_origin *place(const struct claims *c, const struct claim *claim)
{
	const struct conf_queue *q = c->l->conf->queues[claim->queue];
	const struct conf_origin *o = conf_queue_origin(q, claim->key);

	return conf_given(o) ? o : conf_queue_origin(q, "name");
}

/* Told at the queue that came later in the files. */
static void report(struct claims *c, const struct claim *a, const struct claim *b)
{
	const struct claim *later = a->queue > b->queue ? a : b, *other = later == a ? b : a;
	struct conf_queue **queues = c->l->conf->queues;
	char *where;

	if (c->told[later->queue])
		return;
	c->told[later->queue] = true;
	if (other->queue == -1) {
		conf_error(c->l, place(c, later), "queue %s: keys that begin with %s are quredis's own",
		    queues[later->queue]->name, other->name);
		return;
	}
	where = conf_place(place(c, other));
	conf_error(c->l, place(c, later), "queue %s: %s and the %s of queue %s (%s) would meet in the key %s",
	    queues[later->queue]->name, later->key, other->key, queues[other->queue]->name, where,
	    strlen(a->name) > strlen(b->name) ? a->name : b->name);
	free(where);
}

static void compare_all(struct claims *c)
{
	for (size_t i = 0; i < c->n; i++)
		for (size_t k = i + 1; k < c->n && collide(&c->list[i], &c->list[k]); k++)
			if (!same_list(&c->list[i], &c->list[k]))
				report(c, &c->list[i], &c->list[k]);
}

/* Queues of one name are reported as such, not for each of their keys. */
static bool named_before(const struct conf *conf, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (conf->queues[i]->name != NULL && conf->queues[k]->name != NULL &&
		    strcmp(conf->queues[i]->name, conf->queues[k]->name) == 0)
			return true;
	return false;
}

void conf_check_keys(struct conf_loading *l)
{
	struct claims c = { .l = l, .told = alloc_zero(l->conf->nqueues, sizeof(bool)) };

	add(&c, "quredis:", "*", -1, "");
	for (size_t i = 0; i < l->conf->nqueues; i++)
		if (!named_before(l->conf, i))
			add_queue(&c, (int)i);
	qsort(c.list, c.n, sizeof(*c.list), compare);
	compare_all(&c);
	for (size_t i = 0; i < c.n; i++)
		free(c.list[i].name);
	free(c.list);
	free(c.told);
}
