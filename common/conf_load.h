#ifndef COMMON_CONF_LOAD_H
#define COMMON_CONF_LOAD_H

#include <sys/types.h>

#include <stdarg.h>
#include <stdbool.h>

#include "common/conf_schema.h"
#include "common/conf_types.h"

/* What the steps of one conf_load() share. Nothing of it outlives the call but conf and the report. */
struct conf_loading {
	struct conf *conf;		/* being filled; owns the file names that origins point to */
	struct conf_queue defaults;	/* the group `defaults` */
	unsigned flags;			/* of conf_load() */
	const char *only;		/* of conf_load_to_run(); NULL: all queues */
	bool broken;			/* a file could not be read or parsed: what is missing proves nothing */
	mode_t *modes;			/* of conf->files */
	size_t nfiles;
	struct conf_issue *issues;
	size_t nissues;
};

/* conf_report.c. where NULL: nowhere in particular. Errors and warnings are sorted by place at the end. */
void conf_error(struct conf_loading *l, const struct conf_origin *where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void conf_warning(struct conf_loading *l, const struct conf_origin *where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
char *conf_place(const struct conf_origin *where);		/* "FILE:LINE"; new string */
void conf_report_fill(struct conf_loading *l, struct conf_report *report);	/* takes the issues */

/* conf_source.c: files, read whole. */
struct conf_source {
	const char *name;	/* owned by struct conf */
	char *text;		/* NUL behind the last byte */
	size_t len;
	int *wrapped;		/* lines on which an integer is too large for libconfig; already reported */
	size_t nwrapped;
};
/* path is opened once and must be a regular file of root's or ours without any bit of `forbidden`. NULL: why is a new
 * string that says what to do, and *missing whether there is none. Else new bytes, to be wiped by the caller. */
char *conf_file_read(const char *path, mode_t forbidden, bool any_owner, size_t *len, mode_t *mode, char **why,
    bool *missing);
int conf_source_read(struct conf_loading *l, const char *path, struct conf_source *s);	/* -1: reported */
void conf_source_free(struct conf_source *s);
/* The *.conf of conf.d beside path, in the order of their bytes; NULL at the end; new. */
char **conf_fragments(struct conf_loading *l, const char *path);

/* conf_scan.c: what libconfig would accept and misread. -1: do not parse. All reported. */
int conf_scan(struct conf_loading *l, struct conf_source *s);

/* conf_parse.c: one file into conf, defaults and queues. */
void conf_parse(struct conf_loading *l, const struct conf_source *s);

/* conf_names.c: what to say about a name that is not in the schema. prefix: the group it stands in, "" or "backoff.". */
char *conf_unknown(const struct conf_schema *schema, const char *prefix, const char *name);	/* new string */
/* The group of today for a seed's name of a group; NULL: none */
const char *conf_renamed_group(const char *path);

/* conf_merge.c: environment, defaults, what is derived. */
void conf_merge_environment(struct conf_loading *l);
void conf_merge_defaults(struct conf_loading *l);

/* conf_check.c and the files named there: everything that needs more than one value, or the machine. */
void conf_check(struct conf_loading *l);
void conf_check_queue(struct conf_loading *l, struct conf_queue *q);	/* conf_check_queue.c */
void conf_check_purge(struct conf_loading *l, const struct conf_origin *where, const struct conf_purge *purge);	/* the same */
void conf_check_letters(struct conf_loading *l, const struct conf_queue *q);	/* conf_check_letters.c */
void conf_check_shared(struct conf_loading *l, const struct conf_queue *q);	/* conf_check_shared.c */
void conf_check_keys(struct conf_loading *l);				/* conf_collide.c */
/* Whether its handler is to run on this machine, as this user. */
bool conf_is_served(const struct conf_loading *l, const struct conf_queue *q);
void conf_check_user(struct conf_loading *l, struct conf_queue *q);	/* conf_users.c */
void conf_check_root(struct conf_loading *l);	/* conf_users.c: whose handlers run as root */
void conf_check_handler(struct conf_loading *l, struct conf_queue *q);	/* conf_handler.c */
void conf_check_places(struct conf_loading *l);				/* conf_places.c */
/* Checks a path by common/safe_path.h (conf_places.c). A flaw is an error if `grave`, or if every user can change the path; else a warning. */
void conf_check_path(struct conf_loading *l, const struct conf_origin *where, const char *what, const char *path, uid_t user, bool grave);
mode_t conf_file_mode(const struct conf_loading *l, const struct conf_origin *where);	/* mode of the file that `where` names; 0: it names none */
void conf_secrets(struct conf_loading *l);				/* conf_secrets.c */

/* conf.c */
struct conf *conf_new(void);
void conf_queue_init(struct conf_queue *q);	/* zeroed memory; every value "not set" */
struct conf_queue *conf_queue_add(struct conf *conf);
void conf_queue_release(struct conf_queue *q);	/* what is in it */
/* Where a value came from. The place of a queue as a whole is behind those of its keys. */
struct conf_origin *conf_origin(const struct conf *conf, const char *path);
struct conf_origin *conf_queue_origin(const struct conf_queue *q, const char *path);
struct conf_origin *conf_queue_place(const struct conf_queue *q);
static inline bool conf_given(const struct conf_origin *o)
{
	return o->kind == CONF_ORIGIN_FILE || o->kind == CONF_ORIGIN_ENVIRONMENT || o->kind == CONF_ORIGIN_BAD;
}

#endif
