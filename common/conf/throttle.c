/* The limits that queues share: a queue that names a throttle has its rate, burst and max_in_flight. */
#include <stdlib.h>
#include <string.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"

/* A queue sets these itself, or has them from its throttle. */
static const char *const limits[] = { "rate", "burst", "max_in_flight" };

bool conf_sets_limit(const struct conf_queue *q)
{
	for (size_t i = 0; i < nitems(limits); i++)
		if (conf_given(conf_queue_origin(q, limits[i])))
			return true;
	return false;
}

static const struct conf_throttle *find_throttle(const struct conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->nthrottles; i++)
		if (conf->throttles[i]->name != NULL && strcmp(conf->throttles[i]->name, name) == 0)
			return conf->throttles[i];
	return NULL;
}

/* A queue that sets a throttle takes no limit from `defaults`, and the other way round. It keeps both if it sets both,
 * which is an error. */
void conf_derive_limits(const struct conf *conf, struct conf_queue *q, bool own_throttle, bool own_limit)
{
	struct conf_origin *throttle = conf_queue_origin(q, "throttle");
	static const struct conf_throttle none = { .burst = 1, .max_in_flight = -1 };
	const struct conf_throttle *t = q->throttle == NULL ? NULL : find_throttle(conf, q->throttle);

	if (own_limit && !own_throttle) {
		free(q->throttle);
		q->throttle = NULL;
		throttle->kind = CONF_ORIGIN_NONE;
	} else if (q->throttle != NULL && !own_limit && (own_throttle || !conf_sets_limit(q))) {
		t = t == NULL ? &none : t;	/* it does not exist, which is an error */
		q->rate = t->rate;
		q->burst = t->burst;
		q->max_in_flight = t->max_in_flight;
		for (size_t i = 0; i < nitems(limits); i++)
			*conf_queue_origin(q, limits[i]) = (struct conf_origin){ CONF_ORIGIN_DERIVED, 0, "throttle" };
	}
}

static const char *shown_name(const struct conf_throttle *t)
{
	return t->name == NULL ? "?" : t->name;
}

/* The place of a key; that of the whole throttle if the file does not have the key. */
static const struct conf_origin *place_of(const struct conf_throttle *t, const char *key)
{
	const struct conf_origin *own = conf_throttle_origin(t, key);

	return conf_given(own) ? own : conf_throttle_place(t);
}

static void check_twice(struct conf_loading *l, size_t i)
{
	const struct conf_throttle *t = l->conf->throttles[i];
	char *before;

	for (size_t k = 0; k < i && t->name != NULL; k++) {
		const struct conf_throttle *other = l->conf->throttles[k];

		if (other->name == NULL || strcmp(other->name, t->name) != 0)
			continue;
		before = conf_place(place_of(other, "name"));
		conf_error(l, place_of(t, "name"), "throttle %s is already defined at %s", t->name, before);
		free(before);
		return;
	}
}

static void check_throttle(struct conf_loading *l, const struct conf_throttle *t)
{
	bool used = false;

	if (!conf_given(conf_throttle_origin(t, "name")))
		conf_error(l, conf_throttle_place(t), "this throttle has no name");
	else if (t->name != NULL && !identifier_is(IDENTIFIER_NAME, t->name, strlen(t->name)))
		conf_error(l, place_of(t, "name"), "throttle name: expected %s", identifier_form(IDENTIFIER_NAME));
	if (!conf_given(conf_throttle_origin(t, "rate")) && !conf_given(conf_throttle_origin(t, "max_in_flight")))
		conf_error(l, conf_throttle_place(t), "throttle %s: it has neither rate nor max_in_flight",
		    shown_name(t));
	for (size_t i = 0; i < l->conf->nqueues && t->name != NULL; i++)
		used = used || (l->conf->queues[i]->throttle != NULL &&
		    strcmp(l->conf->queues[i]->throttle, t->name) == 0);
	if (!used && t->name != NULL && !l->broken)
		conf_warning(l, conf_throttle_place(t), "throttle %s: no queue has throttle = \"%s\", so it limits "
		    "nothing", t->name, t->name);
}

static const char *nearest_throttle(const struct conf *conf, const char *name)
{
	const char **names = alloc_zero(conf->nthrottles + 1, sizeof(*names)), *near;
	size_t n = 0;

	for (size_t i = 0; i < conf->nthrottles; i++)
		if (conf->throttles[i]->name != NULL)
			names[n++] = conf->throttles[i]->name;
	near = nearest(name, names, n);
	free(names);
	return near;
}

static void check_use(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_origin *where = conf_queue_origin(q, "throttle");
	const char *near;

	for (size_t i = 0; i < nitems(limits); i++)
		if (conf_given(where) && conf_given(conf_queue_origin(q, limits[i])))
			conf_error(l, conf_queue_origin(q, limits[i]), "queue %s: %s is not possible together with "
			    "throttle, which has its own", conf_shown_name(q), limits[i]);
	if (q->throttle == NULL || find_throttle(l->conf, q->throttle) != NULL || l->broken)
		return;
	near = nearest_throttle(l->conf, q->throttle);
	conf_error(l, where, "queue %s: throttle %s does not exist%s%s%s", conf_shown_name(q), q->throttle,
	    near == NULL ? ": expected the name of a group in throttles = ( ... )" : ": did you mean ",
	    near == NULL ? "" : near, near == NULL ? "" : "?");
}

void conf_check_throttles(struct conf_loading *l)
{
	for (size_t i = 0; i < l->conf->nthrottles; i++) {
		check_twice(l, i);
		check_throttle(l, l->conf->throttles[i]);
	}
	for (size_t i = 0; i < l->conf->nqueues; i++)
		check_use(l, l->conf->queues[i]);
}
