#ifndef COMMON_CONF_SCHEMA_H
#define COMMON_CONF_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/conf.h"

/*
 * Every key there is, as data: where it stands in the file, what it may hold, where it lies in struct conf
 * or struct conf_queue, its default. Parser, -T, comparison and the manual's test all read this table.
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
	CONF_TYPE_CODES,	/* enum conf_outcome[256] */
	CONF_TYPES
};

#define CONF_QUEUE_ONLY 1u	/* cannot stand in `defaults` */

struct conf_key {
	const char *path;		/* "backoff.base", below its schema's prefix */
	enum conf_type type;
	size_t offset;
	const char *fallback;		/* the default, as the file would have it without quotes; NULL: none */
	int64_t min, max;		/* numbers, in the unit they are stored in */
	unsigned flags;
	const char *inherits;		/* of a queue: the global key it takes its default from */
	const char *const *choices;	/* NULL at the end */
	size_t set_offset;		/* a bool beside it that says whether it was given; 0: none */
};

struct conf_schema {
	const char *prefix;		/* "" or "queue." */
	const struct conf_key *keys;	/* keys of one group stand together */
	size_t n;
};
extern const struct conf_schema conf_schema_global;	/* offsets into struct conf */
extern const struct conf_schema conf_schema_queue;	/* offsets into struct conf_queue */

/* Where a value came from. Arrays of these stand parallel to a schema's keys. */
enum conf_origin_kind {
	CONF_ORIGIN_NONE,	/* not set */
	CONF_ORIGIN_DEFAULT,
	CONF_ORIGIN_INHERITED,	/* from the global key named in `from` */
	CONF_ORIGIN_DERIVED,	/* worked out from another value, named in `from`; cannot be written down */
	CONF_ORIGIN_FILE,	/* from, line */
	CONF_ORIGIN_ENVIRONMENT,	/* the variable `from` */
	CONF_ORIGIN_BAD		/* written in a file, but unusable; stands at its default */
};
struct conf_origin {
	enum conf_origin_kind kind;
	int line;		/* 0: the whole file */
	const char *from;	/* file name (owned by struct conf), variable or key (constant) */
};

const struct conf_key *conf_key_find(const struct conf_schema *schema, const char *path);	/* NULL: none */
size_t conf_key_index(const struct conf_schema *schema, const char *path);		/* which must exist */
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
