/*
 * The table of checks, and what is the same for all of them: which can run, what is said when there is nothing to say,
 * and what becomes of a look that failed. What is looked for is in the files of the checks.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/doctor.h"

#include "common/clock.h"
#include "common/nitems.h"
#include "common/redis_info.h"

#define DRAIN_MS 5000
#define MOMENT_MS 1000
#define KEYS_MOST 10000000	/* that are looked at, if no other number is given */
#define RECORDS_MOST 100000

/* In this order: each may use what those before it found out. */
static const struct check {
	const char *name;
	enum { NEEDS_NOTHING, NEEDS_FILE, NEEDS_CONNECTION, NEEDS_INFO, NEEDS_SURVEY, NEEDS_UNIT } needs;
	int (*look)(struct doctor *d);
	int (*look_at)(struct doctor *d, struct patient *p);	/* each queue */
	const char *good;
} checks[] = {
	{ "configuration", NEEDS_NOTHING, doctor_configuration, NULL, "no errors, no warnings" },
	{ "systemd", NEEDS_FILE, doctor_unit, NULL, "the unit leaves enough time to stop" },
	{ "timeouts", NEEDS_FILE, doctor_timeouts, NULL, "handlers may finish before a stop ends them" },
	{ "handlers", NEEDS_FILE, doctor_handlers, NULL, "all can be executed by their users" },
	{ "sandbox", NEEDS_UNIT, doctor_sandbox, NULL, "the unit hides nothing that handlers need" },
	{ "secrets", NEEDS_FILE, doctor_secrets, NULL, "nobody else can read what is secret" },
	{ "lock", NEEDS_FILE, doctor_lock_file, NULL, "the lock file is on a local file system" },
	{ "control", NEEDS_FILE, doctor_control_socket, NULL, "the supervisor answers" },
	{ "supervisor", NEEDS_FILE, doctor_supervisor, NULL, "no queue of the supervisor here is in trouble" },
	{ "files", NEEDS_FILE, doctor_open_files, NULL, "the limit of open files is high enough" },
	{ "redis", NEEDS_NOTHING, doctor_redis, NULL, "it answers" },
	{ "role", NEEDS_CONNECTION, doctor_role, NULL, "it is a master" },
	{ "version", NEEDS_INFO, doctor_version, NULL, "new enough" },
	{ "eviction", NEEDS_INFO, doctor_eviction, NULL, "maxmemory-policy is noeviction: no key is thrown away" },
	{ "memory", NEEDS_INFO, doctor_memory, NULL, "there is room" },
	{ "persistence", NEEDS_INFO, doctor_persistence, NULL, "appendfsync always: what was acknowledged survives a crash of Redis" },
	{ "writes", NEEDS_INFO, doctor_writes, NULL, "the last writes to disk were good" },
	{ "clients", NEEDS_INFO, doctor_clients, NULL, "there is room for all workers" },
	{ "clock", NEEDS_CONNECTION, doctor_clock, NULL, "the same as here" },
	{ "registry", NEEDS_CONNECTION, doctor_registry, NULL, "it agrees with the configuration" },
	{ "types", NEEDS_CONNECTION, NULL, doctor_types, "every key has the right type" },
	{ "rights", NEEDS_CONNECTION, NULL, doctor_rights, "this user may do all that workers and sweeper do" },
	{ "registrations", NEEDS_CONNECTION, NULL, doctor_registrations, "all that are registered are alive, or died a short time ago" },
	{ "keys", NEEDS_CONNECTION, doctor_survey, NULL, "all keys of queues were looked at" },
	{ "leases", NEEDS_SURVEY, NULL, doctor_leases, "all that are alive are registered" },
	{ "lost", NEEDS_SURVEY, NULL, doctor_lost, "no message lies where nobody looks" },
	{ "leftovers", NEEDS_CONNECTION, NULL, doctor_leftovers, "no message was left half way back" },
	{ "records", NEEDS_CONNECTION, NULL, doctor_records, "every dead letter has its record" },
	{ "bounds", NEEDS_CONNECTION, NULL, doctor_bounds, "no more dead letters than dead_letter allows" },
	{ "paused", NEEDS_CONNECTION, NULL, doctor_paused, "no queue is paused" },
	{ "delayed", NEEDS_CONNECTION, NULL, doctor_delayed, "no retry is overdue" },
	{ "shared", NEEDS_CONNECTION, NULL, doctor_shared, "nothing of quredis's is before a message that other programs get" },
	{ "workers", NEEDS_CONNECTION, NULL, doctor_workers, "somebody works on all that waits" },
};

void doctor_init(struct doctor *d, struct admin *a)
{
	*d = (struct doctor){ .a = a, .keys_most = KEYS_MOST, .records_most = RECORDS_MOST };
	STAILQ_INIT(&d->findings);
	a->complaint = d->why;
	if (a->options.count >= 0)
		d->keys_most = d->records_most = a->options.count;
}

void doctor_enter(struct doctor *d, struct patient *p)
{
	static const struct queue_keys none;

	d->patient = p;
	d->a->keys = p == NULL ? none : p->keys;	/* p's own: never freed there */
	d->a->queue = p == NULL ? NULL : p->conf;
}

void doctor_drain(struct doctor *d)
{
	struct redis *r = &d->a->redis;
	struct redis_reply reply;

	while (r->state == REDIS_READY && r->pending > 0)
		if (redis_wait(r, &reply, DRAIN_MS, NULL) == -1)
			return;
}

int doctor_reply(struct doctor *d, struct redis_reply *reply)
{
	if (redis_wait(&d->a->redis, reply, ADMIN_TIMEOUT_MS, NULL) == 0)
		return 0;
	return admin_fail(d->a, EX_UNAVAILABLE, "Redis: %s", d->a->redis.error);
}

void doctor_moment(const struct doctor *d)
{
	int64_t left = d->read_ms + MOMENT_MS - clock_monotonic_ms();

	if (left > 0)
		poll(NULL, 0, (int)left);
}

bool doctor_info_text(const struct doctor *d, const char *name, char *out, size_t size)
{
	return d->info != NULL && redis_info_value(d->info, d->info_len, name, out, size);
}

int64_t doctor_info_number(const struct doctor *d, const char *name)
{
	char text[32], *end;
	int64_t n;

	if (!doctor_info_text(d, name, text, sizeof(text)))
		return -1;
	n = strtoll(text, &end, 10);
	return end == text || n < 0 ? -1 : n;
}

static bool can_run(const struct doctor *d, const struct check *c)
{
	switch (c->needs) {
	case NEEDS_FILE:
		return !d->unreadable;
	case NEEDS_CONNECTION:
		return d->connected && !d->away;
	case NEEDS_INFO:
		return d->connected && !d->away && d->info != NULL;
	case NEEDS_UNIT:
		return !d->unreadable && d->unit.path != NULL;
	case NEEDS_SURVEY:
		return d->surveyed && !d->away;
	case NEEDS_NOTHING:
		break;
	}
	return true;
}

static void could_not_look(struct doctor *d)
{
	if (d->connected && d->a->redis.state == REDIS_CLOSED)
		d->away = true;
	else
		doctor_drain(d);
	doctor_advise(doctor_tell(d, SEVERITY_ERROR, NULL, "could not be looked at: %s", d->why),
	    d->away ? "run it again when Redis is back" : "mend that, and run it again");
}

static void look_at_queues(struct doctor *d, const struct check *c)
{
	for (size_t i = 0; i < d->npatients && !d->away; i++) {
		if (!d->patients[i].readable)
			continue;
		doctor_enter(d, &d->patients[i]);
		if (c->look_at(d, &d->patients[i]) == -1)
			could_not_look(d);
		doctor_told(d);
	}
	doctor_enter(d, NULL);
}

static void run(struct doctor *d, const struct check *c)
{
	size_t before = d->nfindings;

	if (c->look_at != NULL && d->npatients == 0)
		return;
	d->check = c->name;
	if (c->look != NULL) {
		if (c->look(d) == -1)
			could_not_look(d);
	} else {
		look_at_queues(d, c);
	}
	if (d->nfindings == before)
		doctor_tell(d, SEVERITY_OK, NULL, "%s", c->good);
	doctor_told(d);
}

int doctor_look(struct doctor *d)
{
	for (size_t i = 0; i < nitems(checks); i++) {
		if (can_run(d, &checks[i]))
			run(d, &checks[i]);
		if (d->a->status == EX_USAGE)
			return -1;
	}
	return 0;
}

void doctor_free(struct doctor *d)
{
	struct finding *f;

	doctor_enter(d, NULL);
	d->a->complaint = NULL;
	while ((f = STAILQ_FIRST(&d->findings)) != NULL) {
		STAILQ_REMOVE_HEAD(&d->findings, next);
		free(f->where);
		free(f->what);
		free(f->advice);
		free(f->subject);
		free(f);
	}
	conf_report_free(&d->report);
	conf_report_free(&d->strict);
	unit_file_free(&d->unit);
	json_decref(d->status);
	free(d->info);
	doctor_patients_free(d);
}
