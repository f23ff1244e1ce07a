/* Reads the lengths of a queue's lists. It neither reads nor moves a message. */
#include <stdlib.h>
#include <sysexits.h>

#include "admin/queues/lists.h"

#include "common/base/base.h"

static void ask_length(struct admin *a, const char *key)
{
	redis_appendf(&a->redis, "LLEN %s", key);
}

void lists_ask(struct admin *a, const struct queue_keys *k)
{
	char *rescue = queue_bare_rescue_key(k);

	queue_poll(&a->redis, k);
	ask_length(a, k->ingress);
	ask_length(a, k->escape);
	ask_length(a, k->transit);
	ask_length(a, rescue);
	ask_length(a, k->aside);
	queue_workers(&a->redis, k);
	free(rescue);
}

/* Accepts a WRONGTYPE error, and sets *wrong; any other error fails. */
static int take_tolerant(struct admin *a, struct redis_reply *reply, bool *wrong)
{
	if (admin_wait(a, reply) == -1)
		return -1;
	*wrong = redis_error_class(reply) == REDIS_ERROR_WRONG_TYPE;
	return *wrong || reply->type != REDIS_ERROR ? 0 : admin_refused(a, reply, NULL);
}

static int take_length(struct admin *a, int64_t *length)
{
	struct redis_reply reply;
	bool wrong;

	if (take_tolerant(a, &reply, &wrong) == -1)
		return -1;
	if (!wrong && (reply.type != REDIS_INTEGER || reply.integer < 0 || reply.integer > ADMIN_COUNT_MAX))
		return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected a length");
	*length = wrong ? LISTS_WRONG_TYPE : reply.integer;
	return 0;
}

static void add_length(int64_t *sum, int64_t length)
{
	if (*sum == LISTS_WRONG_TYPE || length == LISTS_WRONG_TYPE)
		*sum = LISTS_WRONG_TYPE;
	else
		*sum += length;
}

int lists_take(struct admin *a, struct lists *l)
{
	struct redis_reply reply;
	int64_t paused;
	bool wrong;

	*l = (struct lists){0};
	if (take_length(a, &l->delayed) == -1 || take_length(a, &paused) == -1 || take_length(a, &l->pushed) == -1 ||
	    take_length(a, &l->ingress) == -1 ||
	    take_length(a, &l->escape) == -1 || take_length(a, &l->bare) == -1 ||
	    take_length(a, &l->bare_rescue) == -1 || take_length(a, &l->aside) == -1 ||
	    take_tolerant(a, &reply, &wrong) == -1)
		return -1;
	l->paused = paused > 0;
	l->pushed = l->pushed == LISTS_WRONG_TYPE ? 0 : l->pushed;	/* producers write it: doctor names it */
	add_length(&l->delayed, l->pushed);
	l->nworkers = wrong ? 0 : queue_workers_parse(&reply, &l->workers);
	l->owners = alloc_zero(l->nworkers, sizeof(*l->owners));
	add_length(&l->transit, l->bare);
	add_length(&l->transit, l->bare_rescue);
	add_length(&l->transit, l->aside);
	if (wrong)
		l->transit = LISTS_WRONG_TYPE;
	return 0;
}

void lists_ask_trays(struct admin *a, const struct queue_keys *k, const struct lists *l)
{
	for (size_t i = 0; i < l->nworkers; i++) {
		char *lease = queue_lease_key(k, l->workers[i].incarnation);

		redis_appendf(&a->redis, "EXISTS %s", lease);
		free(lease);
		for (int t = 0; t <= QUEUE_TRAYS; t++) {
			char *tray = queue_tray_key(k, l->workers[i].incarnation, t);

			ask_length(a, tray);
			free(tray);
		}
	}
}

int lists_take_trays(struct admin *a, struct lists *l)
{
	for (size_t i = 0; i < l->nworkers; i++) {
		struct owner *o = &l->owners[i];
		int64_t alive;

		if (take_length(a, &alive) == -1)
			return -1;
		o->alive = alive == 1;
		for (int t = 0; t <= QUEUE_TRAYS; t++) {
			if (take_length(a, &o->trays[t]) == -1)
				return -1;
			add_length(&o->total, o->trays[t]);
		}
		add_length(&l->transit, o->total);
		if (o->alive)
			add_length(&l->held, o->total);
	}
	return 0;
}

void lists_free(struct lists *l)
{
	queue_workers_free(l->workers, l->nworkers);
	free(l->owners);
	*l = (struct lists){0};
}

static int wrong_type(struct admin *a, const char *key)
{
	return admin_fail(a, EX_CONFIG, "%s has the wrong type (WRONGTYPE); nothing was done", key);
}

int lists_read(struct admin *a, const struct queue_keys *k, unsigned wanted, struct lists *l)
{
	lists_ask(a, k);
	if (lists_take(a, l) == -1)
		return -1;
	lists_ask_trays(a, k, l);
	if (lists_take_trays(a, l) == -1)
		return -1;
	if ((wanted & LIST_BIT(LIST_INGRESS)) && l->ingress == LISTS_WRONG_TYPE)
		return wrong_type(a, k->ingress);
	if ((wanted & LIST_BIT(LIST_ESCAPE)) && l->escape == LISTS_WRONG_TYPE)
		return wrong_type(a, k->escape);
	if ((wanted & LIST_BIT(LIST_DELAYED)) && l->delayed == LISTS_WRONG_TYPE)
		return wrong_type(a, k->delayed);
	if ((wanted & LIST_BIT(LIST_TRANSIT)) && l->transit == LISTS_WRONG_TYPE)
		return wrong_type(a, l->bare == LISTS_WRONG_TYPE ? k->transit : k->workers);
	return 0;
}

bool lists_bare_is_free(const struct admin *a)
{
	return a->options.force || !a->keys.shared;
}

int64_t lists_free_messages(const struct admin *a, const struct lists *l, enum admin_list list)
{
	int64_t n = a->options.force ? l->transit : l->transit - l->held;

	switch (list) {
	case LIST_INGRESS:
		return l->ingress;
	case LIST_ESCAPE:
		return l->escape;
	case LIST_DELAYED:
		return l->delayed;
	case LIST_TRANSIT:
		break;
	}
	return lists_bare_is_free(a) ? n : n - l->bare - l->bare_rescue;
}
