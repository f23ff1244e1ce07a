#ifndef COMMON_CONF_SCHEMA_H
#define COMMON_CONF_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/conf/conf.h"

/*
 * All keys as data: the path in a file, the type and range, the offset in struct conf, conf_queue, conf_schedule or
 * conf_throttle, the default. The parser, quredisd -T, the comparison of a reload, and the test of the manual read this
 * table.
 */
enum conf_type {
	CONF_TYPE_BOOL,
	CONF_TYPE_INT,		/* int */
	CONF_TYPE_COUNT,	/* int64_t */
	CONF_TYPE_DURATION,	/* int64_t, ms */
	CONF_TYPE_SIZE,		/* int64_t, bytes */
	CONF_TYPE_FLOAT,	/* double */
	CONF_TYPE_STRING,	/* char *, not empty, no control characters */
	CONF_TYPE_PATH,		/* the same, absolute */
	CONF_TYPE_STRINGS,	/* char **, any text, at least one */
	CONF_TYPE_CHOICE,	/* an enum, by conf_key.choices */
	CONF_TYPE_OCTAL,	/* mode_t */
	CONF_TYPE_RATE,		/* struct conf_rate */
	CONF_TYPE_CODES,	/* enum conf_outcome[256] */
	CONF_TYPES
};

#define CONF_QUEUE_ONLY 1u	/* not allowed in `defaults` */

/* Whether a value is, holds or names a secret. All that quredis does for secrets of the configuration follows from this
 * attribute. */
enum conf_secret {
	CONF_SECRET_NONE,
	CONF_SECRET_FILE,	/* names a file that holds one: other users must not be able to read that file */
	/* may hold one, which the load takes out of it: then other users must not be able to read the configuration
	 * file */
	CONF_SECRET_PART,
	/* a list of NAME=VALUE whose values may be secrets: not printed; a warning if every user can read the
	 * configuration file */
	CONF_SECRET_VALUES
};

/* A path that we write to. check_host.c checks what each kind of it needs; what opens it checks its links and its owner
 * again (common/base/file.h). */
enum conf_written {
	CONF_WRITTEN_NOT,
	CONF_WRITTEN_BY_MASTER,		/* a file or socket that the master makes, as the user who started it */
	/* a file that the master makes for supervisor.user, whose processes open it again */
	CONF_WRITTEN_LOG,
	CONF_WRITTEN_FILE,		/* a file that supervisor.user makes anew in its directory */
	CONF_WRITTEN_DIRECTORY,		/* a directory in which supervisor.user makes files */
	CONF_WRITTEN_OWN_DIRECTORY	/* the same; the master makes it if it is missing */
};

struct conf_key {
	const char *path;		/* "backoff.base", without the schema's prefix */
	enum conf_type type;
	size_t offset;
	const char *fallback;		/* the default, as in a file, without quotes; NULL: none */
	int64_t min, max;		/* numbers, in the unit they are stored in */
	unsigned flags;
	enum conf_secret secret;
	enum conf_written written;
	const char *inherits;		/* key of a queue: the global key that gives its default */
	const char *const *choices;	/* NULL at the end */
	size_t set_offset;		/* of a bool that is true when the key is set; 0: none */
};

struct conf_schema {
	const char *prefix;		/* "", "queue.", "schedule." or "throttle." */
	const struct conf_key *keys;	/* keys of one group stand together */
	size_t n;
};
extern const struct conf_schema conf_schema_global;	/* offsets into struct conf */
extern const struct conf_schema conf_schema_queue;	/* offsets into struct conf_queue */
extern const struct conf_schema conf_schema_schedule;	/* offsets into struct conf_schedule */
extern const struct conf_schema conf_schema_throttle;	/* offsets into struct conf_throttle */

const struct conf_key *conf_key_find(const struct conf_schema *schema, const char *path);	/* NULL: none */
size_t conf_key_index(const struct conf_schema *schema, const char *path);		/* the path must exist */
bool conf_key_is_group(const struct conf_schema *schema, const char *path);

static inline void *conf_field(void *base, const struct conf_key *key)
{
	return (char *)base + key->offset;
}

static inline const void *conf_field_const(const void *base, const struct conf_key *key)
{
	return (const char *)base + key->offset;
}

#endif
