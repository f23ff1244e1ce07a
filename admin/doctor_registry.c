/*
 * Which queues there are: those of the configuration and those of the registry, and whether the two agree. What is read
 * here of each queue, all other checks of queues use.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/doctor.h"

#include "admin/visible.h"
#include "common/alloc.h"
#include "common/clock.h"
#include "common/queue_watch.h"

#define QUEUES_MOST 10000
#define WORKERS_MOST 100000	/* fields of a hash of workers */

/* ---- patients ---- */

void doctor_patients_free(struct doctor *d)
{
	for (size_t i = 0; i < d->npatients; i++) {
		struct patient *p = &d->patients[i];

		queue_keys_free(&p->keys);
		lists_free(&p->lists);
		free(p->strangers);
		free(p->unknown);
		free(p->scratch);
	}
	free(d->patients);
}

/* ---- what an entry should be ---- */

static int rewrite(struct doctor *d, const struct finding *f)
{
	struct redis_reply reply;
	int rc = 0;

	queue_register(&d->a->redis, &f->patient->keys, false);
	for (int i = 0; i < 2; i++)
		if (admin_reply(d->a, &reply, f->patient->keys.registered) == -1)
			rc = -1;
	return rc;
}

static const struct remedy rewriting = { "the entry is written again from the configuration", rewrite };

static bool same_lists(const struct queue_keys *a, const struct queue_keys *b)
{
	return strcmp(a->ingress, b->ingress) == 0 && strcmp(a->transit, b->transit) == 0 && strcmp(a->escape, b->escape) == 0;
}

/* Messages, and workers, under these names. -1: as a check. */
static int count_under(struct doctor *d, const struct queue_keys *k, int64_t *n)
{
	struct lists l;

	*n = 0;
	if (lists_read(d->a, k, 0, &l) == -1) {
		lists_free(&l);
		return -1;
	}
	*n = (l.ingress > 0 ? l.ingress : 0) + (l.transit > 0 ? l.transit : 0) + (l.escape > 0 ? l.escape : 0) +
	    (l.delayed > 0 ? l.delayed : 0) + (int64_t)l.nworkers;
	lists_free(&l);
	return 0;
}

/* Whoever reads the registry looks at the lists it names: as long as something is there it must go on naming them. */
static int tell_difference(struct doctor *d, const struct queue_keys *registered)
{
	struct finding *f;
	int64_t n;

	if (count_under(d, registered, &n) == -1)
		return -1;
	if (n > 0) {
		doctor_advise(doctor_tell(d, SEVERITY_ERROR, NULL,
		    "the registry names other lists (%s, %s, %s) than the configuration, and messages or workers are there: %" PRId64,
		    registered->ingress, registered->transit, registered->escape, n),
		    "two hosts do not agree, or the lists were renamed: let the old ones run empty, or move their messages");
		return 0;
	}
	f = doctor_tell(d, SEVERITY_WARNING, NULL, "the registry names other lists (%s, %s, %s) than the configuration; they are empty",
	    registered->ingress, registered->transit, registered->escape);
	doctor_advise(f, "do all hosts have the same configuration?");
	doctor_remedy(f, &rewriting, NULL);
	return 0;
}

static int check_configured(struct doctor *d, struct patient *p)
{
	struct redis_reply reply;
	struct queue_keys registered;
	struct finding *f;
	int rc = 0;

	doctor_enter(d, p);
	redis_appendf(&d->a->redis, "GET %s", p->keys.registered);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (reply.type == REDIS_ERROR)
		return 0;	/* its type is told with the others */
	if (reply.type != REDIS_STRING) {
		f = doctor_tell(d, SEVERITY_WARNING, NULL, "it is not in the registry: other hosts, and the gem, do not know it");
		doctor_advise(f, "a supervisor that has it writes it within a minute");
		doctor_remedy(f, &rewriting, NULL);
	} else if (queue_registered_parse(&registered, p->keys.name, reply.str, reply.len) == -1) {
		f = doctor_tell(d, SEVERITY_WARNING, p->keys.registered, "the registry's entry cannot be read (no JSON with ingress, transit and escape)");
		doctor_remedy(f, &rewriting, NULL);
	} else {
		if (!same_lists(&registered, &p->keys))
			rc = tell_difference(d, &registered);
		queue_keys_free(&registered);
	}
	return rc;
}

/* ---- those that only the registry knows ---- */

static bool is_queue_name(const char *name, size_t len)
{
	return len > 0 && len <= QUEUE_NAME_MAX && strlen(name) == len && name[strspn(name, QUEUE_NAME_BYTES)] == '\0';
}

static void tell_name(struct doctor *d, const struct redis_reply *name)
{
	char *shown = visible(name->str, name->len, 100);

	doctor_advise(doctor_tell(d, SEVERITY_WARNING, QUEUE_REGISTRY, "%s is no name that a queue can have", shown),
	    "redis-cli ZREM " QUEUE_REGISTRY " with that name");
	free(shown);
}

/* A queue that was renamed leaves its entry: to destroy it would destroy the other. */
static void check_double(struct doctor *d, const struct patient *p)
{
	for (const struct patient *q = d->patients; q != p; q++)
		if (strcmp(q->keys.ingress, p->keys.ingress) == 0 || strcmp(q->keys.transit, p->keys.transit) == 0 ||
		    strcmp(q->keys.escape, p->keys.escape) == 0) {
			doctor_advise(doctor_tell(d, SEVERITY_WARNING, NULL, "it has lists of %s", q->keys.name),
			    "do not destroy it; if its name is out of use: redis-cli ZREM " QUEUE_REGISTRY " %s; redis-cli DEL %s", p->keys.name,
			    p->keys.registered);
			return;
		}
}

/* reply: the entry of a name that is good. */
static void take_entry(struct doctor *d, const char *name, const struct redis_reply *reply)
{
	struct patient *p = &d->patients[d->npatients];
	struct finding *f;
	char *entry;

	if (reply->type == REDIS_STRING && queue_registered_parse(&p->keys, name, reply->str, reply->len) == 0) {
		d->npatients++;
		doctor_enter(d, p);
		check_double(d, p);
		doctor_enter(d, NULL);
		return;
	}
	entry = queue_registered_key(name);
	f = doctor_tell(d, reply->type == REDIS_ERROR ? SEVERITY_ERROR : SEVERITY_WARNING, entry,
	    "the registry has the name %s, and %s", name,
	    reply->type == REDIS_NIL ? "no entry for it" : reply->type == REDIS_ERROR ? reply->str : "an entry that cannot be read");
	doctor_advise(f, "redis-cli ZREM " QUEUE_REGISTRY " %s; redis-cli DEL %s; or start a supervisor that has the queue", name, entry);
	free(entry);
}

static int take_name(struct doctor *d, const char *name)
{
	struct redis_reply reply;

	if (conf_queue_find(d->a->conf, name) != NULL)
		return 0;
	queue_registered(&d->a->redis, name);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	take_entry(d, name, &reply);
	return 0;
}

/* Names that are good; the others are told. They are copies: the answer goes with the next one. */
static int read_names(struct doctor *d, char ***names, size_t *n)
{
	struct redis_reply reply;

	redis_appendf(&d->a->redis, "ZRANGE " QUEUE_REGISTRY " 0 %d", (int64_t)QUEUES_MOST - 1);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (!redis_is_strings(&reply)) {
		doctor_advise(doctor_tell(d, SEVERITY_ERROR, QUEUE_REGISTRY, "the registry cannot be read: %s", reply.type == REDIS_ERROR ? reply.str : ""),
		    "another program uses this key: move it, and start a supervisor");
		return 0;
	}
	*names = alloc_zero(reply.n + 1, sizeof(**names));
	for (size_t i = 0; i < reply.n; i++) {
		struct redis_reply name = redis_element(&reply, i);

		if (is_queue_name(name.str, name.len))
			(*names)[(*n)++] = alloc_string(name.str);
		else
			tell_name(d, &name);
	}
	return 0;
}

/* ---- what is in them ---- */

/* A hash so large is none of ours, and would not fit here. */
static int count_workers(struct doctor *d, const struct patient *p, int64_t *n)
{
	struct redis_reply reply;

	redis_appendf(&d->a->redis, "HLEN %s", p->keys.workers);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	*n = reply.type == REDIS_INTEGER ? reply.integer : 0;
	return 0;
}

static int read_lists(struct doctor *d, struct patient *p)
{
	int64_t workers;

	doctor_enter(d, p);
	if (count_workers(d, p, &workers) == -1)
		return -1;
	if (workers > WORKERS_MOST)
		return admin_fail(d->a, EX_CONFIG, "%s has %" PRId64 " fields", p->keys.workers, workers);
	if (lists_read(d->a, &p->keys, 0, &p->lists) == -1)
		return -1;
	p->readable = true;
	/* Whether others share it the registry need not know: the gem writes it anew. */
	p->keys.shared = p->keys.shared || (p->conf == NULL && queue_workers_share(p->lists.workers, p->lists.nworkers));
	for (size_t i = 0; i < p->lists.nworkers; i++)
		p->alive += p->lists.owners[i].alive;
	return 0;
}

/* They stay where they are: findings point at them. */
static void take_configured(struct doctor *d, size_t more)
{
	d->patients = alloc_zero(d->a->conf->nqueues + more + 1, sizeof(*d->patients));
	for (size_t i = 0; i < d->a->conf->nqueues; i++) {
		struct patient *p = &d->patients[d->npatients++];

		p->conf = d->a->conf->queues[i];
		queue_keys_from_conf(&p->keys, p->conf);
	}
}

/* Trouble with one queue is no trouble of the others. */
static int for_all(struct doctor *d, int (*look)(struct doctor *d, struct patient *p), bool configured)
{
	for (size_t i = 0; i < d->npatients; i++) {
		if (configured && d->patients[i].conf == NULL)
			continue;
		if (look(d, &d->patients[i]) == -1) {
			if (d->a->redis.state == REDIS_CLOSED)
				return -1;
			doctor_drain(d);
			doctor_advise(doctor_tell(d, SEVERITY_ERROR, NULL, "it could not be looked at: %s", d->why), "mend that, and run it again");
		}
		doctor_told(d);
	}
	doctor_enter(d, NULL);
	return 0;
}

int doctor_registry(struct doctor *d)
{
	char **names = NULL;
	size_t n = 0;
	int rc;

	if (d->server_ms <= 0)
		d->server_ms = clock_realtime_ms();
	rc = read_names(d, &names, &n);
	take_configured(d, n);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = take_name(d, names[i]);
	doctor_told(d);
	admin_names_free(names, n);
	if (rc == 0)
		rc = for_all(d, check_configured, true);
	if (rc == 0)
		rc = for_all(d, read_lists, false);
	d->read_ms = clock_monotonic_ms();
	return rc;
}
