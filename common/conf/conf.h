#ifndef COMMON_CONF_CONF_H
#define COMMON_CONF_CONF_H

#include <sys/stat.h>
#include <sys/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/cron/cron.h"
#include "common/log/log.h"
#include "common/redis/redis.h"

/*
 * The configuration (quredis.conf(5)): the only header of this folder for the rest of the program.
 *
 *	conf_load()	reads the files, applies environment and defaults, checks all of it, and reports each error with
 *			its file and line
 *	struct conf	the values, one field for each key of schema.c
 *	conf_print()	shows them as a file again, with the origin of each
 *	conf_*_equal()	tell a reload which queues changed
 *
 * Durations are ms, sizes bytes; -1 in either means "not set" or "no limit". struct conf owns everything in it;
 * conf_free() frees it. After the load only conf_run_as_resolve() changes values.
 */
enum conf_mode { CONF_MODE_EXEC, CONF_MODE_PERSISTENT };
enum conf_input { CONF_INPUT_STDIN, CONF_INPUT_ARGV };
enum conf_message { CONF_MESSAGE_BYTES, CONF_MESSAGE_JSON, CONF_MESSAGE_TEXT };	/* as a function gets it */
enum conf_catch_up { CONF_CATCH_UP_ONE, CONF_CATCH_UP_NONE };
enum conf_fence { CONF_FENCE_FINISH, CONF_FENCE_KILL };

/* The meaning of an exit status (docs/design.md). FAIL: a failed attempt. */
enum conf_outcome { CONF_OUTCOME_FAIL, CONF_OUTCOME_DONE, CONF_OUTCOME_RETRY, CONF_OUTCOME_ESCAPE };

struct conf_backoff {
	int64_t base_ms;
	double factor;
	int64_t cap_ms;
	double jitter;		/* 0..1: the random share of the delay */
};

/* At most n starts in each per_ms, and burst at once; n 0: no limit. */
struct conf_rate {
	int64_t n, per_ms;
};
#define CONF_RATE_PER_MAX_MS (INT64_C(24) * 60 * 60 * 1000)

struct conf_run_as {
	char *user;		/* NULL: the supervisor's own */
	char *group;		/* NULL: the user's */
	char *directory;	/* NULL: "/" */
	mode_t umask;
	int nice;
	bool no_new_privs;
	/* resolved at load, since a name service may hang, and a child that was just forked must not */
	bool switch_user;	/* a handler's child sets uid, gid and groups: they are not those of its worker */
	uid_t uid;
	gid_t gid;
	gid_t *groups;
	int ngroups;
	char *home;		/* of user; NULL without user */
	char *login;		/* name of uid; NULL without user */
};

struct conf_limits {		/* -1: inherited */
	int64_t memory;		/* RLIMIT_DATA, bytes */
	int64_t open_files;
	int64_t processes;
	int64_t cpu_ms;		/* whole seconds for RLIMIT_CPU, rounded up */
	int64_t file_size;	/* bytes */
	int oom_score_adj;	/* -1000..1000 */
	bool oom_score_adj_set;
};

struct conf_dead_letter {
	bool enabled;
	int64_t ttl_ms;
	int64_t max_entries;
	int64_t payload_max;	/* bytes of a message kept in its record */
	char *archive;
	int64_t archive_size;	/* bytes after which a file of it is full */
	bool discard;
	char *forward_to;
};

struct conf_purge {
	bool enabled, dry_run;
	int64_t interval_ms;
	int64_t max_ingress_age_ms, max_transit_age_ms, max_done_age_ms, max_orphaned_age_ms, max_message_age_ms;
	char **check;
};

/* Above these a queue is degraded or unhealthy (sweeper/report/health_rule.h). */
struct conf_thresholds {
	int64_t ingress_max, transit_max, dlq_max_warning, dlq_max_critical;
	int64_t stuck_age_ms, stuck_max_warning, stuck_max_critical;
	int64_t failure_rate_warning, failure_rate_critical;	/* percent of the attempts */
	int64_t oldest_age_warning_ms, oldest_age_critical_ms;	/* of the oldest waiting message */
	int64_t paused_max_ms, growth_max_ms, delayed_max;
	int64_t failure_window_ms, failure_min;	/* failure_min: attempts in the window; fewer prove nothing */
};

/* A handler pushes further messages, with the acknowledgement of its own. */
#define CONF_EMIT_MAX 5000		/* a script of Redis takes no more in one command */
#define CONF_EMIT_BYTES_MAX (INT64_C(64) * 1024 * 1024)	/* the worker keeps them until the message is done */
struct conf_emit {
	char **queues;			/* names of the targets, NULL at the end; NULL: the handler emits nothing */
	int max, max_depth;
	int64_t max_bytes;		/* of all messages that one message emits */
	const struct conf_queue **targets;	/* the same as queues, resolved at the load; NULL: none. Not owned */
};

#define CONF_WORKERS_MAX 1000

struct conf_queue {
	char *name, *ingress, *transit, *escape;	/* ingress, transit, escape: whole key names */
	bool shared;			/* other programs fetch from it, too */
	bool headers;			/* false: a producer's first line "quredis/1 ..." is payload */
	char **handler;			/* argv, NULL at the end; handler[0] absolute */
	char *function;			/* FILE or FILE:FUNCTION, from which handler, mode and reply_fd follow */
	bool isolate;			/* each message in a fork of the process that has loaded the function */
	enum conf_message message;
	char **interpreter;		/* of the function, NULL at the end; NULL: the usual one */
	enum conf_mode mode;
	enum conf_input input;
	bool ready;			/* persistent: it writes READY once it has loaded, and gets no message before */
	int64_t start_timeout_ms;	/* until READY */
	int window;
	int reply_fd;
	char **env;			/* "NAME=VALUE" set; "NAME" passed through; NULL at the end */
	int64_t timeout_ms;		/* use conf_timeout_ms() */
	/* of a run, with signs of life; <= 0: a sign of life does not extend an exec handler's timeout */
	int64_t max_duration_ms;
	int64_t kill_grace_ms;		/* default: supervisor.kill_grace */
	enum conf_fence fence;
	int workers;			/* 0..CONF_WORKERS_MAX */
	struct { int max; int64_t time_ms; } batch;
	struct { int64_t jobs, rss, age_ms; } recycle;
	int64_t message_max;		/* bytes; a longer message is not fetched */
	int max_attempts;
	struct conf_backoff backoff;
	enum conf_outcome exit_codes[256];
	struct { int failures; } breaker;
	int recovery_attempts;
	char *throttle;			/* the name of one of conf.throttles, which gives the three below; NULL: none */
	struct conf_rate rate;
	int64_t burst, max_in_flight;	/* with rate: starts at once; messages that may run (-1: no limit) */
	struct conf_emit emit;
	int64_t ttl_ms;
	struct { int64_t keep, max_age_ms, payload; } done;	/* keep: messages; payload: bytes of each */
	struct conf_dead_letter dead_letter;
	struct conf_purge purge;
	struct { struct conf_thresholds thresholds; char **on_change; } health;
	struct conf_run_as run_as;
	struct conf_limits limits;
	int64_t stderr_tail;		/* bytes of stderr kept for the record */
	struct conf_origin *origins;	/* where each value came from (conf/schema.h) */
};

/* A message that the sweeper pushes at its times. */
struct conf_schedule {
	char *name, *queue;
	char *cron;			/* NULL: times.every_ms counts */
	char *timezone;
	char *message;
	enum conf_catch_up catch_up;	/* which of the times that passed while no sweeper worked is pushed later */
	bool overlap;			/* false: a tick is skipped while an earlier message is in the queue */
	struct cron_times times;
	struct conf_origin *origins;	/* as those of a queue */
};

/* A limit that several queues share. */
struct conf_throttle {
	char *name;
	struct conf_rate rate;
	int64_t burst, max_in_flight;	/* as those of a queue */
	struct conf_origin *origins;	/* as those of a queue */
};

struct conf {
	struct {
		char *url;		/* unix://, redis://, rediss://; the password is taken out of it */
		char *user;		/* ACL user from the url; NULL: default */
		bool url_had_password;
		char *password;		/* from password_file, $CREDENTIALS_DIRECTORY or the url; NULL: none */
		char *password_file;
		char **sentinels;	/* HOST[:PORT], NULL at the end; NULL: the url names the server */
		char *master;		/* its name for the Sentinels */
		char *sentinel_user;
		char *sentinel_password;	/* from sentinel_password_file or $CREDENTIALS_DIRECTORY; NULL: none */
		char *sentinel_password_file;
		bool sentinel_tls;	/* connections to Sentinels use TLS */
		/* TLS: the CAs that may sign the server's certificate; both NULL: those of the system */
		char *ca_file, *ca_dir;
		char *cert_file, *key_file;	/* TLS: what we present to the server; both or none */
		bool tls_verify;
		/* made of these at the load. NULL: no connection needs TLS; or (lenient load) a file cannot be read */
		struct tls_context *tls;
		bool embedded;
		char *dir;
		char *server;		/* embedded: the redis-server executable */
		bool allow_eviction;	/* accept an evicting maxmemory-policy */
		/* the names of all keys begin with it, except for lists that a file names; NULL: none */
		char *prefix;
	} redis;
	struct {
		char *node;		/* default: the host name, unusable bytes replaced by '-' */
		char *lock_file, *control_socket, *control_group;
		gid_t control_gid;	/* of control_group; (gid_t)-1: none */
		int64_t drain_timeout_ms, kill_grace_ms, lease_ms;
		/* its user: sweeper, workers, keeper and embedded Redis become it if as.switch_user; otherwise the
		 * caller's */
		struct conf_run_as as;
		bool core;		/* processes of quredis may leave core files, and be traced by their user */
	} supervisor;
	struct { char *target; enum log_format format; enum log_level level; } log;
	struct conf_dead_letter dead_letter;
	struct conf_purge purge;
	struct {
		bool enabled;
		int64_t interval_ms;
		struct conf_thresholds thresholds;
		char **on_change;	/* the command that runs when a queue's status changes; NULL: none */
	} health;
	struct { char *statsd, *textfile; int64_t interval_ms; } metrics;
	/* hosts: NULL: none */
	struct { char *listen, *token_file; bool read_only, public_reads, behind_proxy; char **hosts; } web;
	struct conf_queue **queues;	/* in the order of the files */
	size_t nqueues;
	struct conf_schedule **schedules;	/* the same */
	size_t nschedules;
	struct conf_throttle **throttles;	/* the same */
	size_t nthrottles;
	struct conf_origin *origins;	/* of what is above the queues */
	char **files;			/* what was read, in order; NULL at the end */
	int64_t loaded_ms;		/* ms since 1970: when they were read */
};

/* All errors and warnings, in the order of the files; each text is "FILE:LINE: EXPECTED". */
struct conf_report {
	struct conf_problem {
		bool warning;
		/* a warning: quredisd starts and reloads in spite of it, but a queue cannot run its handler */
		bool blocks;
		/* length of "FILE:LINE" at the beginning of text; 0: the problem has no place */
		size_t place_len;
		char *text;
	} *problems;
	size_t n, errors, blocked;	/* blocked: problems that block a queue */
};

#define CONF_REDIS_SERVER "/usr/bin/redis-server"	/* the default of redis.server; Debian installs it there */

/*
 * The configuration file that a program reads, for conf_load(): the one that the option -c names (NULL: none is given),
 * else that of $QUREDIS_CONF, else ./quredis.conf of this user, who is not root, else CONF_SYSTEM_PATH.
 */
#define CONF_SYSTEM_PATH QUREDIS_SYSCONFDIR "/quredis/quredis.conf"
struct conf_choice {
	char *path;		/* absolute, unless it is that of the option */
	char *why;		/* a phrase: "-c", "the current directory" */
	bool system;		/* nothing names a file: that of the system, which may be missing */
};
void conf_choose(const char *option, struct conf_choice *c);
void conf_choice_free(struct conf_choice *c);
/* "/srv/quredis.conf ($QUREDIS_CONF)": a new string for messages */
char *conf_choice_text(const struct conf_choice *c);
/* The path as it was given, with the current directory before it: no link is resolved, also not in the name of that
 * directory. A new string. */
char *conf_absolute_path(const char *path);

/*
 * Reads path and the *.conf of the directory conf.d beside it, in name order, merges, applies
 * environment (QUREDIS_REDIS_URL, QUREDIS_REDIS_PREFIX, QUREDIS_LOG_LEVEL) and defaults, checks users, handler paths,
 * secrets and names. Returns a new conf (conf_free) or NULL if report->errors > 0. The report is
 * filled in both cases and freed with conf_report_free().
 * path NULL: no file, environment and defaults only.
 * CONF_LENIENT_HANDLERS, for the command line: does not check what only the supervisor needs (handler paths, users,
 * time zones), does not resolve run_as, and only warns of a password, certificate or key that cannot be read. A program
 * that executes handlers loads without this flag. CONF_TLS, for an address of the command line: fills redis.tls
 * although redis.url has no TLS. CONF_LOOK, for a program that judges handlers of another process:
 * CONF_INHERITS_OTHER holds. CONF_DESPITE_ERRORS, for a command that needs only the control socket: never NULL; a bad
 * value has its default.
 */
#define CONF_LENIENT_HANDLERS 1u
#define CONF_TLS 2u
#define CONF_DESPITE_ERRORS 4u
#define CONF_LOOK 8u
struct conf *conf_load(const char *path, unsigned flags, struct conf_report *report);
/* To execute the handler of this queue alone: time zones, users and handlers of other queues are not checked. */
struct conf *conf_load_to_run(const char *path, const char *queue, struct conf_report *report);
/* With CONF_LOOK, for files that are still to be written: path has the text of the configuration, and nothing is said
 * of what is missing in dir, where handlers and sockets will be. */
struct conf *conf_load_planned(const char *path, const char *dir, struct conf_report *report);

/*
 * Reads one line of a file of mode 0600, or of a credential in $CREDENTIALS_DIRECTORY: a new string, which the caller
 * wipes. NULL: *why is a new string. For secrets that only one program needs.
 */
char *conf_secret_read(const char *file, char **why);

void conf_free(struct conf *conf);
void conf_report_free(struct conf_report *report);
void conf_report_print(const struct conf_report *report, FILE *out);

/*
 * Whether the user of a queue, which run_as names, can execute its handler, and whether all files for it exist. Calls
 * found for each flaw. The strings end with the call.
 */
struct conf_flaw {
	const char *key;	/* that names the file */
	const char *path;
	const char *text, *advice;	/* what the flaw is, and what to do */
	bool is_doubt;			/* it depends on the PATH of the supervisor, which is not known */
};
typedef void conf_flaw_found(void *arg, const struct conf_flaw *flaw);
/*
 * Whose PATH a handler inherits. A program that env(1) finds only by the PATH of this process is a doubt, where this
 * process is not the supervisor.
 */
enum conf_inherits {
	CONF_INHERITS_THIS,	/* that of this process: a supervisor, its child, or a command that runs the handler */
	CONF_INHERITS_OTHER,	/* that of a supervisor which this process only speaks about */
};
void conf_program_check(const struct conf_queue *q, enum conf_inherits inherits, conf_flaw_found *found, void *arg);
/* The PATH that the handler gets, where the supervisor has inherited this one (NULL: none). */
const char *conf_handler_path(const struct conf_queue *q, const char *inherited);
/*
 * Whether this user can open what a start opens: calls found for each key whose file it cannot. Returns the exit status
 * of such a start, 0 if there is no flaw. Makes nothing. pid_file: NULL: none.
 */
typedef void conf_start_flaw(void *arg, const char *key, const char *flaw, const char *advice);
int conf_start_check(const struct conf *conf, const char *pid_file, conf_start_flaw *found, void *arg);
/* Of redis.dir: static text; NULL: none. */
const char *conf_redis_dir_flaw(const struct conf *conf, const struct stat *st);

/* Prints the effective configuration, with the origin of each value as a comment. Leaves out secrets, including the
 * values that `env` sets, with a comment. Except for these it parses again to an equal configuration. */
void conf_print(const struct conf *conf, FILE *out);
/* "100/1m", as in a file. Returns out. */
#define CONF_RATE_TEXT_SIZE 64
const char *conf_rate_text(const struct conf_rate *r, char out[CONF_RATE_TEXT_SIZE]);

int64_t conf_timeout_ms(const struct conf_queue *q);	/* of a run without a sign of life */
/* of a run with them; a persistent handler with BEAT and without max_duration is not bounded */
int64_t conf_longest_run_ms(const struct conf_queue *q);
struct conf_queue *conf_queue_find(const struct conf *conf, const char *name);	/* NULL: none */

/* The default name of "ingress", "transit" or "escape": a new string. prefix: redis.prefix; NULL: none */
char *conf_list_name(const char *prefix, const char *which, const char *queue);

/*
 * The private keys of a queue: PREFIXquredis:of:INGRESS and a suffix, where INGRESS is the name of its ingress list
 * without the prefix. So no access list of a producer, which names ingress lists, covers them. conf_private_base() is
 * the name without the suffix, a new string.
 */
enum conf_private_key { CONF_PRIVATE_DELAYED, CONF_PRIVATE_APART, CONF_PRIVATE_APART_LIST, CONF_PRIVATE_DONE,
	CONF_PRIVATE_STATS, CONF_PRIVATE_PAUSED, CONF_PRIVATE_CANCELS, CONF_PRIVATE_THROTTLE, CONF_PRIVATE_SEATS,
	CONF_PRIVATE_SEATS_FREE, CONF_PRIVATE_SWEEPER, CONF_PRIVATE_NOTES, CONF_PRIVATE_RATE, CONF_PRIVATE_BACKLOG,
	CONF_PRIVATE_SCRATCH, CONF_PRIVATE_SCHEDULES, CONF_PRIVATE_KEYS };
extern const char *const conf_private_suffixes[CONF_PRIVATE_KEYS];	/* a '*' at the end stands for any text */
char *conf_private_base(const char *prefix, const char *ingress);

/* True: the sweeper notes since when messages wait in this queue, for ttl, health, purge or metrics (docs/design.md,
 * "Time to live"). */
static inline bool conf_queue_ages(const struct conf *conf, const struct conf_queue *q)
{
	return !q->shared && (q->ttl_ms > 0 || conf->health.enabled || conf->purge.enabled ||
	    conf->metrics.statsd != NULL || conf->metrics.textfile != NULL);
}

/*
 * Fills in uid, gid, groups, home and login from user and group; what neither says is as in `own` if it switches its
 * user, otherwise the caller's. Returns the bits of the names that do not exist; then groups are not filled in.
 */
#define CONF_NO_USER 1u
#define CONF_NO_GROUP 2u
unsigned conf_run_as_resolve(struct conf_run_as *r, const struct conf_run_as *own);	/* own NULL: none */
/* True: the user may read (S_IROTH) or execute (S_IXOTH) a file. The kernel decides so, too, except that it also knows
 * ACLs. */
bool conf_run_as_may(const struct conf_run_as *r, const struct stat *st, mode_t what);

bool conf_run_as_same_ids(const struct conf_run_as *a, const struct conf_run_as *b);	/* uid, gid and groups */

/*
 * The file that the program of a command line runs: "/opt/mail.py" of "/usr/bin/env python3 -u /opt/mail.py --fast".
 * argv: at least one element, NULL at the end. False: which of its arguments that is, is not known ("sh -c …").
 * Async-signal-safe.
 */
#define CONF_SCRIPT_MAX 1024
struct conf_script {
	char path[CONF_SCRIPT_MAX];
	int may;		/* as access(2): R_OK: an interpreter reads it; X_OK: env executes it */
	const char *main;	/* if it is a directory, the file in it that runs. Static; NULL: none; "": not known */
};
bool conf_find_script(char *const *argv, struct conf_script *script);
/* True: a known interpreter runs a file at path that begins with head: it must be readable. Async-signal-safe */
bool conf_runs_by_script(const char *head, size_t len, const char *path);

/* False: a reload must replace the workers, or the sweeper, when a becomes b. Every key counts except `workers`. */
bool conf_queue_equal(const struct conf_queue *a, const struct conf_queue *b);
/*
 * Of a handler that stays, a hash of the files that it is loaded from, as they are now: that of its function, or its
 * program and the script that a known interpreter gets. With `ready` a file that conf_program_check() finds fault with
 * counts, too, since old workers go on until the new handler is ready. 0: not known, or a process for each message.
 */
uint64_t conf_handler_files(const struct conf_queue *q);
/* Logs, records and commands call the handler so: its function, else its program. NULL: a rule has none */
const char *conf_handler_name(const struct conf_queue *q);
/* Advice if the last line that a runner printed says that a module is missing: a new string. NULL: it does not. */
char *conf_function_lack(const struct conf_queue *q, const char *said);
bool conf_schedules_equal(const struct conf *a, const struct conf *b);
struct redis_options conf_redis_options(const struct conf *conf);	/* where Redis is; strings belong to conf */
bool conf_file_is_empty(const struct conf *conf, const char *file);	/* the file was read, and no value is from it */
bool conf_globals_equal(const struct conf *a, const struct conf *b);	/* redis, supervisor, dead_letter, ... */

/* The origin of a value. Arrays of these stand parallel to a schema's keys. */
enum conf_origin_kind {
	CONF_ORIGIN_NONE,	/* not set */
	CONF_ORIGIN_DEFAULT,
	CONF_ORIGIN_INHERITED,	/* from the global key named in `from` */
	CONF_ORIGIN_DERIVED,	/* computed from the value named in `from`; it cannot be written in a file */
	CONF_ORIGIN_FILE,	/* from, line */
	CONF_ORIGIN_ENVIRONMENT,	/* the variable `from` */
	CONF_ORIGIN_BAD		/* written in a file, but refused; the value is the default */
};
struct conf_origin {
	enum conf_origin_kind kind;
	int line;		/* 0: the whole file */
	const char *from;	/* file name (owned by struct conf), variable or key (constant) */
};

/* The origin of a key; conf_queue_place() gives that of the queue as a whole, which stands behind those of its keys. */
struct conf_origin *conf_origin(const struct conf *conf, const char *path);
struct conf_origin *conf_queue_origin(const struct conf_queue *q, const char *path);
struct conf_origin *conf_queue_place(const struct conf_queue *q);
/* "30 2 * * * Europe/Berlin", "every 5m": a new string */
char *conf_schedule_times(const struct conf_schedule *s);
struct conf_origin *conf_schedule_origin(const struct conf_schedule *s, const char *path);
struct conf_origin *conf_schedule_place(const struct conf_schedule *s);
struct conf_origin *conf_throttle_origin(const struct conf_throttle *t, const char *path);
struct conf_origin *conf_throttle_place(const struct conf_throttle *t);
static inline bool conf_given(const struct conf_origin *o)
{
	return o->kind == CONF_ORIGIN_FILE || o->kind == CONF_ORIGIN_ENVIRONMENT || o->kind == CONF_ORIGIN_BAD;
}

#endif
