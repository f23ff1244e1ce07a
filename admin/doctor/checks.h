#ifndef ADMIN_DOCTOR_CHECKS_H
#define ADMIN_DOCTOR_CHECKS_H

#include <sys/types.h>

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/cli/cli.h"
#include "admin/queues/queues.h"
#include "common/base/base.h"

/*
 * quredis doctor runs a table of checks, which add findings; the findings are printed when the last check has ended.
 * Only the files of this folder include this header; the door of the folder is cmd_doctor().
 *	command.c	the command: runs the table, applies fixes
 *	doctor.c	what the checks share			findings.c	the list of findings
 *	report.c	prints the findings			fold.c		makes one line of alike ones
 *	advice.c	completes commands in an advice		connection.c	which server was reached
 *	conf.c		the configuration			handlers.c	whether handlers can be executed
 *	systemd.c	the unit				supervisor.c	the supervisor of this host
 *	server.c	Redis as a server			registry.c	which queues exist
 *	queues.c	keys and work of one queue		owners.c	registrations and leases
 *	survey.c	keys that no registration leads to	lost.c		messages that no process will find
 *	records.c	dead letters and their records		cluster.c	whether all keys are in one slot
 *	commands.c	commands that a hosted service refuses	sentinels.c	each Sentinel
 *	certificates.c	when certificates expire	operations.c	unfinished retries and deletions
 *	health.c	the reports of the sweepers	access.c	what other users of Redis may do
 *	secret.c	the secret that seals wrappers		libraries.c	libraries that read from the network
 *	functions.c	whether functions can be loaded		throttle.c	what limits the starts of a queue
 *
 * Each row has the name of the check, its requirement, and the text of the report if there is no finding. Order
 * matters: a check may use the results of those before it. SYSTEM(x) is int check_x(struct doctor *), QUEUE(x) is int
 * check_x(struct doctor *, struct queue_check *) and runs for each queue. They return 0, or -1 if the check could not
 * be done: the reason is in d->why.
 */
#define CHECKS(SYSTEM, QUEUE) \
	SYSTEM(configuration, NEEDS_NOTHING, "no errors, no warnings") \
	SYSTEM(libraries, NEEDS_NOTHING, "every library that reads from the network is new enough") \
	SYSTEM(systemd, NEEDS_FILE, "the unit fits the configuration") \
	SYSTEM(handlers, NEEDS_FILE, "their users can execute them all") \
	SYSTEM(functions, NEEDS_OPERATOR, "their files can be loaded") \
	SYSTEM(control, NEEDS_FILE, "the supervisor answers") \
	SYSTEM(supervisor, NEEDS_FILE, "all its queues work") \
	SYSTEM(log, NEEDS_FILE, "the supervisor's log has taken every line") \
	SYSTEM(redis, NEEDS_NOTHING, "Redis answers") \
	SYSTEM(sentinels, NEEDS_NOTHING, "every Sentinel names the master") \
	SYSTEM(certificates, NEEDS_NOTHING, "no certificate has expired, or expires soon") \
	SYSTEM(cluster, NEEDS_NOTHING, "Redis is not a Cluster; key slots do not matter") \
	SYSTEM(role, NEEDS_CONNECTION, "Redis is a master") \
	SYSTEM(version, NEEDS_INFO, "new enough") \
	SYSTEM(commands, NEEDS_CONNECTION, "Redis offers every command of quredis") \
	SYSTEM(eviction, NEEDS_INFO, "maxmemory-policy is noeviction: Redis deletes no key by itself") \
	SYSTEM(memory, NEEDS_INFO, "Redis has enough memory") \
	SYSTEM(persistence, NEEDS_INFO, "appendfsync always: acknowledged data survives a crash of Redis") \
	SYSTEM(writes, NEEDS_INFO, "the last writes to disk succeeded") \
	SYSTEM(clients, NEEDS_INFO, "maxclients is high enough for all workers") \
	SYSTEM(answers, NEEDS_CONNECTION, "Redis may send every message of up to message_max") \
	SYSTEM(clock, NEEDS_CONNECTION, "the clocks of Redis and this host agree") \
	SYSTEM(registry, NEEDS_CONNECTION, "the registry agrees with the configuration") \
	SYSTEM(secret, NEEDS_CONNECTION, \
	    "quredis:secret holds the secret that seals wrappers, or no message has one yet") \
	QUEUE(types, NEEDS_CONNECTION, "every key has the right type") \
	QUEUE(rights, NEEDS_CONNECTION, "this user may run every command of workers and sweeper") \
	QUEUE(access, NEEDS_CONNECTION, \
	    "no user of Redis that may push can write what quredis trusts, as far as Redis tells") \
	QUEUE(registrations, NEEDS_CONNECTION, "every registered worker is alive, or died a short time ago") \
	SYSTEM(keys, NEEDS_CONNECTION, "all keys of all queues were scanned") \
	QUEUE(leases, NEEDS_SURVEY, "every live worker is registered") \
	QUEUE(lost, NEEDS_SURVEY, "every tray with messages has an owner") \
	QUEUE(leftovers, NEEDS_CONNECTION, "no message is stuck on its way back to ingress") \
	QUEUE(records, NEEDS_CONNECTION, "every dead letter has its record") \
	QUEUE(operations, NEEDS_CONNECTION, "no retry or deletion of dead letters is unfinished") \
	QUEUE(bounds, NEEDS_CONNECTION, "no queue has more dead letters than dead_letter allows") \
	QUEUE(paused, NEEDS_CONNECTION, "no queue is paused") \
	QUEUE(throttle, NEEDS_CONNECTION, "every host has the same limits") \
	QUEUE(schedules, NEEDS_CONNECTION, "every schedule is on time, and has the same times on every host") \
	QUEUE(delayed, NEEDS_CONNECTION, "no retry is overdue") \
	QUEUE(shared, NEEDS_CONNECTION, "no wrapper of quredis reaches other programs") \
	QUEUE(workers, NEEDS_CONNECTION, "every queue with messages has workers") \
	SYSTEM(health, NEEDS_CONNECTION, "no queue is degraded or unhealthy")

enum severity { SEVERITY_OK, SEVERITY_NOTE, SEVERITY_WARNING, SEVERITY_ERROR };

struct doctor;
struct finding;

/* A safe repair that --fix applies. */
struct fix {
	const char *does;	/* "remove the registration" */
	int (*apply)(struct doctor *d, const struct finding *f);	/* -1: failed, the reason is in d->why */
};

struct finding {
	STAILQ_ENTRY(finding) next;
	const char *check;
	enum severity severity;
	struct queue_check *queue;	/* NULL: of no queue */
	char *where, *what, *advice;	/* owned; where and advice may be NULL */
	const char *format;		/* of what: findings of one format may be printed as one */
	bool other_user;		/* its commands need a Redis user with more rights than ours */
	const struct fix *fix;		/* NULL: an operator has to act */
	char *subject;			/* what the fix is applied to; owned, may be NULL */
	enum { FIX_NONE, FIX_WOULD, FIX_DONE, FIX_FAILED } fixed;
};

/* An owner of trays or of a lease that is not registered. */
struct unregistered {
	char incarnation[INCARNATION_SIZE];
	bool leased;
	int64_t trays[QUEUE_TRAYS + 1], total;	/* as in struct owner */
	bool wrong_type;	/* one of the trays is not a list */
	char signature[ENCODE_SHA1_SIZE];	/* of the contents of the trays; "": not requested */
};

/* The data of one queue: registry.c reads it first, and the checks of queues use it. */
struct queue_check {
	struct queue_keys keys;
	const struct conf_queue *conf;	/* NULL: known only from the registry */
	bool readable;		/* its lists were read; otherwise nothing below is known */
	struct lists lists;
	size_t alive;		/* workers with a lease */
	struct unregistered *unregistered;	/* sorted by incarnation; owned */
	size_t nunregistered;
};

/* The data that checks collect for later checks. Each file of this folder writes only its own part. */
struct doctor_conf {			/* conf.c */
	/* of the configuration as the command line reads it; as the supervisor does */
	struct conf_report report, strict;
	/* the configuration could not be read: a->conf holds the defaults, or is NULL */
	bool unreadable;
	uid_t supervisor_uid;		/* the user of the supervisor; ours if it is not known */
};

struct doctor_unit {			/* systemd.c */
	struct buffer lines;		/* properties of the unit; empty: no unit runs this configuration */
	const char *none;		/* why there is no unit, if lines is empty */
	char name[QUEUE_NAME_MAX + 16];	/* "quredisd", or "quredisd@NAME" for NAME.conf */
};

struct doctor_supervisor {
	struct json_t *status;		/* of the supervisor of this host; NULL: it did not answer */
};

/* Whether Redis runs a command. Denied: this Redis user lacks the right, and its administrator can grant it. Unknown:
 * the server refuses it to every user. */
enum command_answer { COMMAND_OFFERED, COMMAND_DENIED, COMMAND_UNKNOWN };

struct doctor_server {			/* server.c */
	bool connected;
	enum command_answer config_set;	/* COMMAND_UNKNOWN: the settings are those of a hosted service */
	char *info;			/* the answer of INFO; NULL: refused */
	size_t info_len;
	/* the clock of Redis when the queues were read; our own if Redis did not tell */
	int64_t now_ms;
};

struct doctor_queues {			/* registry.c */
	struct queue_check *all;	/* those of the configuration first; they never move */
	size_t n;
	int64_t read_ms;		/* CLOCK_MONOTONIC when the lists were read */
	char *registry;			/* its key; owned. NULL before check_registry() */
};

struct doctor_survey {
	bool done, sampled;		/* done: the scan has ended; sampled: it did not see all keys */
};

struct doctor_lost {
	/* a whole lease has passed since the survey, in which every living owner could renew its lease */
	bool waited;
};

struct doctor_findings {
	STAILQ_HEAD(, finding) list;
	struct finding *before;		/* the last finding before this check and queue; NULL: there was none */
};

struct doctor {
	struct admin *a;
	char why[COMPLAINT_SIZE];	/* the last message of admin_fail() */

	/* for the check that runs */
	const char *check;
	struct queue_check *queue;	/* NULL: the check is not about one queue */

	bool away;			/* Redis cannot be reached, or the connection was lost */
	int64_t keys_most, records_most;	/* limits: keys to scan; records to read of one queue */

	struct doctor_findings findings;
	struct doctor_conf conf;
	struct doctor_unit unit;
	struct doctor_supervisor supervisor;
	struct doctor_server server;
	struct doctor_queues queues;
	struct doctor_survey survey;
	struct doctor_lost lost;
	struct json_t *reports;		/* others.c: of other nodes, by name; null: the node has none */
};

#define SYSTEM(name, ...) int check_##name(struct doctor *d);
#define QUEUE(name, ...) int check_##name(struct doctor *d, struct queue_check *q);
CHECKS(SYSTEM, QUEUE)
#undef SYSTEM
#undef QUEUE

/* ---- doctor.c ---- */

/* Makes q (NULL: none) the queue of the next findings, and sets a->keys and a->queue to it. */
void doctor_enter(struct doctor *d, struct queue_check *q);
/* Waits for one answer of Redis, which may be an error. -1: the connection was lost. */
int doctor_reply(struct doctor *d, struct redis_reply *reply);
/* Notes that Redis cannot be reached, or that the connection was lost: no further check uses Redis. */
void doctor_lose_redis(struct doctor *d);
/* Discards the answers that a failed check did not read. */
void doctor_drain(struct doctor *d);
/* Waits until moves that were under way when the queues were read have ended. */
void doctor_let_moves_end(const struct doctor *d);
const char *doctor_user(const struct doctor *d);	/* the Redis user of this command */
bool doctor_is_same_file(const char *a, const char *b);	/* true: two paths lead to it */
/* The configuration has errors: adds a finding if the supervisor here runs with what the file was before. */
void doctor_tell_older(struct doctor *d);

/* ---- connection.c ---- */

/* Add findings of the running check: which server the connection has reached, or why there is none. */
void doctor_add_connected(struct doctor *d);
void doctor_add_refused(struct doctor *d);

/* ---- findings.c ---- */

void findings_init(struct doctor *d);
/* Adds a finding of the running check. where NULL: its queue, or nothing. Valid until the check ends. */
struct finding *findings_add(struct doctor *d, enum severity severity, const char *where, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
/* about the server */
#define doctor_add(d, severity, ...) findings_add(d, severity, (d)->a->target.shown, __VA_ARGS__)
/* Sets the advice of a finding. Commands in it are whole, so that an operator can copy them; advice_complete() adds to
 * redis-cli and quredis how they find Redis. */
void findings_advise(struct finding *f, const char *advice, ...) __attribute__((format(printf, 2, 3)));
void findings_offer(struct finding *f, const struct fix *fix, const char *subject);
/* Ends a check of one queue: keeps as many findings as fit into a document, and only counts the rest. */
void findings_end_check(struct doctor *d);
enum severity findings_worst(const struct doctor *d);
/* Counts findings by severity. Returns the number of fixed ones, which do not count by severity. */
size_t findings_count(const struct doctor *d, size_t n[SEVERITY_ERROR + 1]);
void findings_free(struct doctor *d);

/* ---- report.c ---- */

/*
 * Prints on standard output: blocks on a terminal, otherwise a table, which hide what is fine, fold alike findings and
 * end with the worst; or JSON, all of them, the worst first.
 */
void report_print(struct doctor *d);
void report_summarize(const struct doctor *d);	/* the verdict, on standard error */
/* the fixes that are offered, on standard error; returns their number */
size_t report_fixes(const struct doctor *d);

/* ---- advice.c ---- */

/* Adds to each command of redis-cli and of quredis the options by which it finds the Redis that was checked; login
 * false: without our user. A new string. */
char *advice_complete(const struct doctor *d, const char *advice, bool login);

/* ---- commands.c ---- */

/* How Redis answered a command. A missing right to a key is none to the command. */
enum command_answer commands_answer(enum command_name command, const struct redis_reply *reply);

/* ---- others.c ---- */

/* Reads the report of a node, once; null: it has none. A view into d->reports. -1: as a check */
int others_report(struct doctor *d, const char *node, const struct json_t **report);
/* Calls look() with the report of each other node that has workers of the queue; null: the node has none. -1: as a
 * check */
int others_each(struct doctor *d, const struct queue_check *q, void (*look)(struct doctor *d,
    const struct queue_check *q, const char *node, const struct json_t *report));

/* ---- certificates.c ---- */

/* Adds a finding of the running check about the certificate of the server behind r, if r has TLS. */
void certificates_judge_server(struct doctor *d, const char *where, const struct redis *r);

/* ---- systemd.c, registry.c, survey.c ---- */

/* Reads the unit, if it runs this configuration. */
void unit_find(struct doctor *d);
bool unit_is_ours(const struct doctor *d);
/* A property of the unit as systemctl show prints it; "": not set, or there is no unit. */
const char *unit_get(const struct doctor *d, const char *property);
void registry_free_queues(struct doctor *d);
/* Reads trays, lease and registration of an unregistered owner. sign: also sets the signature. 1: the owner is
 * registered by now; -1: as a check. */
int survey_look(struct doctor *d, struct queue_check *q, struct unregistered *u, bool sign);
const struct unregistered *survey_find(const struct queue_check *q, const char *incarnation);	/* NULL: none */

#endif
