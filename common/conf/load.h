#ifndef COMMON_CONF_LOAD_H
#define COMMON_CONF_LOAD_H

#include <sys/types.h>

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>

#include "common/conf/schema.h"
#include "common/conf/types.h"

/*
 * Types and functions that the files of this folder share. The rest of the program includes conf.h alone.
 *
 *	choice.c	which file is read
 *	load.c		the order: files, environment, defaults, checks
 *	report.c	the errors and warnings of a load
 *	source.c	files read whole, and the password of Redis
 *	tls.c		reads the certificates and the key of TLS connections
 *	scan.c		finds texts that libconfig would accept and misread
 *	parse.c		reads the text of a file into struct conf
 *	schema.c	the table of all keys
 *	types.c		the types of keys: accepted values and storage
 *	print.c		prints a configuration as a file
 *	names.c		advice on a name that is no key
 *	check.c		checks across keys and queues; check_queue.c: of one queue; check_host.c: of users and paths of
 *			this host; check_programs.c: of what queues execute
 *	check_schedule.c	the schedules
 *	throttle.c	the limits that queues share
 *	emit.c		where handlers emit to
 *	start.c		whether this user can open what a start opens
 *	command.c	whether the user of a queue can execute its handler; program.c: each file of it; first_line.c: a
 *			script; elf.c: another program
 *	similar.c	a file whose name is similar to that of one that is missing
 *	function.c	the handler that follows from a function
 *	script.c	which file of a command line its interpreter runs, also behind env(1)
 *	conf.c		the life of a struct conf
 */

/* The state of one conf_load(), for all its steps. Only conf and the report outlive the call. */
struct conf_loading {
	struct conf *conf;		/* being filled; owns the file names that origins point to */
	struct conf_queue defaults;	/* the group `defaults` */
	unsigned flags;			/* of conf_load() */
	const char *only;		/* of conf_load_to_run(); NULL: all queues */
	const char *planned;		/* of conf_load_planned(): the directory; NULL: all files should be there */
	bool broken;			/* a file could not be read or parsed: what is missing proves nothing */
	mode_t *modes;			/* of conf->files */
	size_t nfiles;
	struct conf_issue *issues;	/* in the order of discovery */
	size_t nissues;
};

static inline const char *conf_shown_name(const struct conf_queue *q)
{
	return q->name == NULL ? "?" : q->name;
}

/* The queue itself sets the key, and `defaults` does not. */
static inline bool conf_given_in_queue(const struct conf_loading *l, const struct conf_queue *q, const char *key)
{
	return conf_queue_origin(q, key)->kind == CONF_ORIGIN_FILE && !conf_given(conf_queue_origin(&l->defaults, key));
}

/* report.c. where NULL: the problem has no place. The report is sorted by place at the end. */
void conf_error(struct conf_loading *l, const struct conf_origin *where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void conf_warning(struct conf_loading *l, const struct conf_origin *where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A warning by which a queue cannot run its handler. */
void conf_blocked(struct conf_loading *l, const struct conf_origin *where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void conf_report_fill(struct conf_loading *l, struct conf_report *report);	/* at the end; takes the issues */
char *conf_place(const struct conf_origin *where);		/* "FILE:LINE"; new string */

/* source.c: a file, read whole. */
struct conf_source {
	const char *name;	/* owned by struct conf */
	char *text;		/* NUL behind the last byte */
	size_t len;
	int *wrapped;		/* lines on which an integer is too large for libconfig; already reported */
	size_t nwrapped;
};
int conf_source_read(struct conf_loading *l, const char *path, struct conf_source *s);	/* -1: reported */
void conf_source_free(struct conf_source *s);
/* The *.conf of conf.d beside path, in the order of their bytes; NULL at the end; new. */
char **conf_fragments(struct conf_loading *l, const char *path);
/* mode of the file that `where` names; 0: it names none */
mode_t conf_file_mode(const struct conf_loading *l, const struct conf_origin *where);
/* A file that a key names, by its path or as a credential: read whole and checked on its descriptor. */
struct conf_named {
	char *path, *text;	/* owned; NUL behind the last byte of text */
	size_t len;
};
/*
 * If the row of the key says that the file holds a secret, nobody else may be able to read it. -1: reported, as a
 * warning if the load is lenient and this host or user is the reason.
 */
int conf_named_read(struct conf_loading *l, const char *key, const char *file, struct conf_named *out);
/* The command line only warns: a user who may not read a file can still run commands that do not need it. Frees why.
 * Returns -1. */
int conf_report_unreadable(struct conf_loading *l, const char *key, char *why);
void conf_named_free(struct conf_named *n);	/* wipes the text */
/* Takes the password of Redis out of its file, $CREDENTIALS_DIRECTORY or the address. Warns of a readable file whose
 * `env` sets values. */
void conf_secrets(struct conf_loading *l);

/* tls.c. Fills conf->redis.tls if the address of Redis, or CONF_TLS, asks for it. */
void conf_tls(struct conf_loading *l);

/* scan.c. Reports every error that it finds. -1: do not parse the text. */
int conf_scan(struct conf_loading *l, struct conf_source *s);

/* parse.c: one file into conf, defaults and queues. */
void conf_parse(struct conf_loading *l, const struct conf_source *s);

/* names.c: the error for a name that is no key. prefix: the group it stands in, "" or "backoff.". Returns a new
 * string. */
char *conf_unknown(const struct conf_schema *schema, const char *prefix, const char *name);
/* The advice for a value of other systems; NULL: there is none. */
const char *conf_value_advice(const char *key, const char *value);
/* The names of the keys in a group, separated by commas: a new string. prefix: as of conf_unknown(). */
char *conf_group_members(const struct conf_schema *schema, const char *prefix);
/* Advice for a syntax error in a line that begins with a key such as backoff.base: a new string. NULL: it does not. */
char *conf_dotted_advice(const char *text, int line);
/* The group that an earlier system called `path`; NULL: none. */
const char *conf_renamed_group(const char *path);

/* function.c. own_: the queue itself has the key, which `defaults` may have, too. */
void conf_derive_handler(struct conf_loading *l, struct conf_queue *q, bool own_function, bool own_handler);
void conf_check_function(struct conf_loading *l, const struct conf_queue *q);	/* the keys; no file */
/* Of a queue whose handler follows from its function. */
struct conf_function_parts {
	char *file;			/* new */
	const char *runner, *package;	/* package: of Debian, which has the interpreter */
};
void conf_function_parts(const struct conf_queue *q, struct conf_function_parts *parts);

/* command.c: of another command, which a key of q names, and which runs as the handler does */
void conf_command_check(const struct conf_queue *q, const char *key, char *const *argv, enum conf_inherits inherits,
    conf_flaw_found *found, void *arg);

/* similar.c. The path of another file in the same directory, or in the directories of a PATH; NULL: none is similar.
 * New strings. */
char *conf_similar_path(const char *path);
char *conf_similar_in_path(const char *dirs, const char *name);

/* script.c. A relative path counts from the directory in which handlers run. A new string. */
char *conf_run_path(const struct conf_queue *q, const char *path);
bool conf_is_env(const char *path);		/* its first argument is no file, but the words of env(1) */
/* The program that env(1) runs. argv: of env itself. False: not known, or none. */
struct conf_env_command {
	char *program;		/* new */
	char *path;		/* the PATH in which env looks for it, new; NULL: as env has inherited it */
};
bool conf_env_find(char *const *argv, struct conf_env_command *e);
bool conf_env_runs_nothing(char *const *argv);		/* it prints its environment, and succeeds */

/*
 * first_line.c: the command in the first line of a script, as the kernel reads it. head: of the file, begins with "#!",
 * ends with NUL, and is changed.
 */
struct conf_first_line {
	char *interpreter, *argument;	/* of head; argument: the rest of the line; "": none */
	bool is_cut;			/* the kernel reads no more of it, and the interpreter's name goes on */
};
void conf_first_line_read(char *head, struct conf_first_line *line);
/* Why it runs nothing; NULL: it may. Static. before, after: what to do, around the path of the script. is_env: of its
 * interpreter */
struct conf_first_line_flaw {
	const char *text, *before, *after;
	bool is_no_script;	/* for the kernel: ENOEXEC */
};
const struct conf_first_line_flaw *conf_first_line_flaw(const struct conf_first_line *line, bool is_env);
/* The command of the kernel for the script of this path: the interpreter, the argument if there is one, the path. */
void conf_first_line_command(const struct conf_first_line *line, char *path, char *argv[4]);

/* elf.c. Static text; NULL: none. loader: the path of the program that loads it; "": none. */
const char *conf_elf_flaw(int fd, off_t size, char loader[PATH_MAX]);

/* check.c, check_queue.c, check_host.c */
void conf_check(struct conf_loading *l);
/* the queue with the most similar name; NULL: none. but: another one than this; NULL: any */
const char *conf_nearest_queue(const struct conf *conf, const struct conf_queue *but, const char *name);
/* check_schedule.c: all schedules. Parses their cron expressions. */
void conf_check_schedules(struct conf_loading *l);
/* throttle.c. Gives a queue the limits of its throttle. own_: the queue itself has the key, or one of the limits. */
void conf_derive_limits(const struct conf *conf, struct conf_queue *q, bool own_throttle, bool own_limit);
bool conf_sets_limit(const struct conf_queue *q);	/* it, or `defaults` after the merge, has one */
void conf_check_throttles(struct conf_loading *l);	/* all throttles, and which queues have them */
/* emit.c: resolves the targets of all queues. */
void conf_check_emit(struct conf_loading *l);
bool conf_emit_equal(const struct conf_emit *a, const struct conf_emit *b);	/* of the targets; not of the keys */
void conf_check_queue(struct conf_loading *l, struct conf_queue *q);
/* q NULL: the global ones */
void conf_check_commands(struct conf_loading *l, const struct conf_queue *q);	/* the keys; no file */
void conf_check_thresholds(struct conf_loading *l, const struct conf_queue *q, const struct conf_thresholds *t);
/* True: this process will start handlers of the queue, so its user and its programs must exist on this host. */
bool conf_is_served(const struct conf_loading *l, const struct conf_queue *q);
void conf_check_user(struct conf_loading *l, struct conf_queue *q);	/* resolves run_as */
/* check_programs.c: the same; and checks directory and programs */
void conf_check_execution(struct conf_loading *l, struct conf_queue *q);
void conf_check_control_group(struct conf_loading *l);	/* resolves supervisor.control_group */
void conf_check_own_user(struct conf_loading *l);	/* resolves supervisor.user, before the queues are checked */
void conf_check_root(struct conf_loading *l);	/* warns of handlers that run as root */
void conf_check_places(struct conf_loading *l);	/* checks the paths that the daemon itself uses */
/* The file is still to be written (conf_load_planned()). */
bool conf_is_planned(const struct conf_loading *l, const char *path);
/* Checks a path by common/base/file.h. A flaw is an error if `grave`, or if every user can change the path; else a
 * warning. */
void conf_check_path(struct conf_loading *l, const struct conf_origin *where, const char *what, const char *path,
    uid_t user, bool grave);

/* conf.c */
struct conf *conf_new(void);
void conf_queue_init(struct conf_queue *q);	/* zeroed memory; every value "not set" */
struct conf_queue *conf_queue_add(struct conf *conf);
struct conf_schedule *conf_schedule_add(struct conf *conf);
struct conf_throttle *conf_throttle_add(struct conf *conf);
void conf_queue_release(struct conf_queue *q);	/* frees what it owns, not q */

#endif
