#ifndef COMMON_CONF_TYPES_H
#define COMMON_CONF_TYPES_H

#include "common/conf/schema.h"

/* A value from a file or the environment that was not checked yet. Owns nothing. */
struct conf_raw {
	enum { CONF_RAW_OTHER, CONF_RAW_BOOL, CONF_RAW_INT, CONF_RAW_FLOAT, CONF_RAW_STRING, CONF_RAW_STRINGS,
	    CONF_RAW_CODES } kind;
	int64_t number;			/* BOOL, INT */
	double real;			/* FLOAT */
	const char *string;		/* STRING */
	const char *const *strings;	/* STRINGS, NULL at the end */
	const enum conf_outcome *codes;	/* CODES, 256 */
};

/* base is the struct conf or conf_queue that the key's offset counts from. */

void conf_value_unset(const struct conf_key *key, void *base);		/* for new memory: frees nothing */
/* Stores raw and frees the value before it. -1: the key does not accept it; nothing was changed. */
int conf_value_read(const struct conf_key *key, const struct conf_raw *raw, void *base);
void conf_value_default(const struct conf_key *key, void *base);	/* key->fallback must not be NULL */
/* from_key and key differ where a queue inherits from a global key; their types are the same. */
void conf_value_copy(const struct conf_key *key, void *base, const struct conf_key *from_key, const void *from_base);
bool conf_value_equal(const struct conf_key *key, const void *a, const void *b);
void conf_value_print(const struct conf_key *key, const void *base, FILE *out);	/* as in a file */
/* True: a secret stands, or stood until the load took it out, in the value itself. A list that only names variables has
 * none. */
bool conf_value_holds_secret(const struct conf_key *key, const void *base);
void conf_value_free(const struct conf_key *key, void *base);

/* "a duration in quotes such as \"30s\", 1s to 1h"; new string */
char *conf_value_expected(const struct conf_key *key);

void conf_codes_default(enum conf_outcome codes[256]);

#endif
