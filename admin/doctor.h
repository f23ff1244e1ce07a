#ifndef ADMIN_DOCTOR_H
#define ADMIN_DOCTOR_H

#include <sys/types.h>

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/admin.h"
#include "admin/lists.h"
#include "admin/unit_file.h"
#include "common/digest.h"

/*
 * quredis doctor: a table of checks (doctor.c), each of which looks and tells what it found; nothing is said before the
 * last has looked. Shared by the doctor_ files only.
 *	cmd_doctor.c	the command: look, mend, say		doctor_findings.c	what was found, and how it is shown
 *	doctor_conf.c	the configuration			doctor_handlers.c	what it has executed
 *	doctor_host.c	files, sockets and limits here		doctor_unit.c		the systemd unit
 *	doctor_server.c	Redis, as it is set up			doctor_store.c		Redis, what it promises to keep
 *	doctor_registry.c	which queues there are		doctor_queues.c		their keys, and who works on them
 *	doctor_owners.c	registrations and leases		doctor_survey.c		keys that nobody knows
 *	doctor_lost.c	what lies there, and elsewhere half way
 *	doctor_records.c	dead letters and their records
 */
enum severity { SEVERITY_OK, SEVERITY_NOTE, SEVERITY_WARNING, SEVERITY_ERROR };

struct doctor;
struct finding;

/* What --fix can do about a finding. */
struct remedy {
	const char *does;	/* "remove the registration" */
	/* 0: done; -1: not, why is in d->why */
	int (*apply)(struct doctor *d, const struct finding *f);
};

struct finding {
	STAILQ_ENTRY(finding) next;
	const char *check;
	enum severity severity;
	struct patient *patient;	/* NULL: of no queue */
	char *where, *what, *advice;	/* owned; where and advice: NULL, none */
	const struct remedy *remedy;	/* NULL: for a person */
	char *subject;			/* whom the remedy is about; owned, may be NULL */
	enum { MENDED_NOT, MENDED_WOULD, MENDED, MENDED_FAILED } mended;
};
STAILQ_HEAD(finding_list, finding);

/* Somebody whose trays or lease were found, and who is in no registration. */
struct stranger {
	char incarnation[INCARNATION_SIZE];
	bool leased;
	int64_t trays[QUEUE_TRAYS + 1], total;	/* as in struct owner */
	bool wrong_type;	/* one of the trays is no list */
	char signature[DIGEST_HEX_SIZE];	/* of what lies in the trays; "" if not asked for */
};

struct patient {		/* a queue */
	struct queue_keys keys;
	const struct conf_queue *conf;	/* NULL: known from the registry only */
	bool readable;		/* its lists could be read; else nothing below is known */
	struct lists lists;
	size_t alive;		/* workers with a lease */
	struct stranger *strangers;	/* sorted; owned */
	size_t nstrangers;
	size_t nunknown, nscratch;	/* other keys below transit */
	char *unknown, *scratch;	/* one of each; owned, fit to be shown */
};

struct doctor {
	struct admin *a;
	struct finding_list findings;
	size_t nfindings;
	char why[COMPLAINT_SIZE];	/* what admin_fail() said last */

	/* for the check that is under way */
	const char *check;
	struct patient *patient;	/* NULL: none in particular */
	size_t told;			/* findings of this check and patient */
	struct finding spare;		/* takes what is beyond what is told */

	/* the host */
	struct conf_report report, strict;	/* as the command line reads it; as the supervisor does */
	bool unreadable;		/* the configuration could not be read: its values are the defaults */
	uid_t supervisor_uid;		/* whom the supervisor runs as; ours if that is not known */
	struct unit_file unit;
	struct json_t *status;		/* of the supervisor here; NULL: none answered */

	/* Redis */
	bool connected;
	bool away;			/* it could not be reached, or went away */
	char *info;			/* INFO's answer; NULL: it gave none */
	size_t info_len;
	int64_t server_ms;		/* its clock when the queues were read */
	int64_t keys_most, records_most;	/* how many are looked at; records: in a queue */

	struct patient *patients;	/* those of the configuration first */
	size_t npatients;
	bool surveyed, sampled;		/* keys were looked for; not all of them were seen */
	int64_t read_ms;		/* CLOCK_MONOTONIC when their lists were read */
	bool waited;			/* a lease has passed since, and nothing but death can have kept them silent */
};

/* doctor.c: runs every check. -1: usage, said. */
int doctor_look(struct doctor *d);
void doctor_init(struct doctor *d, struct admin *a);
void doctor_free(struct doctor *d);

/* Something was found by the check under way, at where (NULL: its queue, or nowhere). Valid until the next. */
struct finding *doctor_tell(struct doctor *d, enum severity severity, const char *where, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
/* What to do about it. */
void doctor_advise(struct finding *f, const char *advice, ...) __attribute__((format(printf, 2, 3)));
void doctor_remedy(struct finding *f, const struct remedy *remedy, const char *subject);
/* Ends what one check has to tell of one patient: what was more than can be read is counted. */
void doctor_told(struct doctor *d);

enum severity doctor_worst(const struct doctor *d);
void doctor_show(struct doctor *d);		/* on standard output, the worst first */
void doctor_sum_up(struct doctor *d);		/* on standard error */

/* One answer of Redis. -1: it went away. An error is an answer. */
int doctor_reply(struct doctor *d, struct redis_reply *reply);
/* Takes the answers that a look which failed left behind. */
void doctor_drain(struct doctor *d);
/* Until what was under way when the queues were read is over; once for all of them. */
void doctor_moment(const struct doctor *d);
/* For what reads a->keys and a->queue. */
void doctor_enter(struct doctor *d, struct patient *p);
/* A number of INFO's; -1: it is not there. */
int64_t doctor_info_number(const struct doctor *d, const char *name);
bool doctor_info_text(const struct doctor *d, const char *name, char *out, size_t size);
/* One value of CONFIG GET; false: this server does not tell it. */
bool doctor_setting(struct doctor *d, const char *name, char *out, size_t size);

/* The checks. 0, or -1 if it could not look: why is in d->why. */
int doctor_configuration(struct doctor *d);
int doctor_timeouts(struct doctor *d);
int doctor_handlers(struct doctor *d);
int doctor_secrets(struct doctor *d);
int doctor_lock_file(struct doctor *d);
int doctor_control_socket(struct doctor *d);
int doctor_supervisor(struct doctor *d);
int doctor_open_files(struct doctor *d);
int doctor_unit(struct doctor *d);
int doctor_sandbox(struct doctor *d);
int doctor_redis(struct doctor *d);
int doctor_version(struct doctor *d);
int doctor_role(struct doctor *d);
int doctor_clients(struct doctor *d);
int doctor_clock(struct doctor *d);
int doctor_eviction(struct doctor *d);
int doctor_memory(struct doctor *d);
int doctor_persistence(struct doctor *d);
int doctor_writes(struct doctor *d);
int doctor_registry(struct doctor *d);
int doctor_types(struct doctor *d, struct patient *p);
int doctor_rights(struct doctor *d, struct patient *p);
int doctor_registrations(struct doctor *d, struct patient *p);
int doctor_survey(struct doctor *d);
int doctor_leases(struct doctor *d, struct patient *p);
int doctor_lost(struct doctor *d, struct patient *p);
int doctor_leftovers(struct doctor *d, struct patient *p);
int doctor_records(struct doctor *d, struct patient *p);
int doctor_bounds(struct doctor *d, struct patient *p);
int doctor_paused(struct doctor *d, struct patient *p);
int doctor_delayed(struct doctor *d, struct patient *p);
int doctor_shared(struct doctor *d, struct patient *p);
int doctor_workers(struct doctor *d, struct patient *p);

/* doctor_conf.c: whether two paths lead to the same configuration */
bool doctor_is_same_file(const char *a, const char *b);
/* doctor_unit.c: reads the unit, if it runs this configuration */
void doctor_unit_find(struct doctor *d);
/* doctor_registry.c */
void doctor_patients_free(struct doctor *d);
/* doctor_survey.c: asks how much lies in a stranger's trays, and whether it has a lease. -1: as a check; 1: it is none (any more) */
int doctor_stranger_look(struct doctor *d, struct patient *p, struct stranger *s, bool sign);

#endif
