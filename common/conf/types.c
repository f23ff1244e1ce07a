/*
 * The types of keys: one row of operations for each, which read, compare, copy and free a value. print.c prints values;
 * schema.c gives each key its type.
 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/conf/types.h"

#include "common/base/base.h"

_Static_assert(sizeof(enum conf_mode) == sizeof(int) && sizeof(enum log_level) == sizeof(int),
    "choices are stored as int");

struct type_ops {
	int (*read)(const struct conf_key *key, const struct conf_raw *raw, void *field);
	bool (*equal)(const void *a, const void *b);
	void (*copy)(void *to, const void *from);	/* `to` owns nothing */
	void (*free)(void *field);			/* NULL: nothing to free */
};

/* ---- numbers ---- */

static int in_range(const struct conf_key *key, int64_t n)
{
	return n >= key->min && n <= key->max ? 0 : -1;
}

static int read_bool(const struct conf_key *key, const struct conf_raw *raw, void *field)
{
	(void)key;
	if (raw->kind != CONF_RAW_BOOL)
		return -1;
	*(bool *)field = raw->number != 0;
	return 0;
}

static int read_int(const struct conf_key *key, const struct conf_raw *raw, void *field)
{
	if (raw->kind != CONF_RAW_INT || in_range(key, raw->number) == -1)
		return -1;
	*(int *)field = (int)raw->number;
	return 0;
}

static int read_count(const struct conf_key *key, const struct conf_raw *raw, void *field)
{
	int (*parse)(const char *text, int64_t *n) =
	    key->type == CONF_TYPE_DURATION ? units_parse_duration : units_parse_size;
	int64_t n = raw->number;

	if (key->type == CONF_TYPE_COUNT ? raw->kind != CONF_RAW_INT
	    : raw->kind != CONF_RAW_STRING || parse(raw->string, &n) == -1)
		return -1;
	if (in_range(key, n) == -1)
		return -1;
	*(int64_t *)field = n;
	return 0;
}

static int read_float(const struct conf_key *key, const struct conf_raw *raw, void *field)
{
	double n = raw->kind == CONF_RAW_INT ? (double)raw->number : raw->real;

	if (raw->kind != CONF_RAW_INT && raw->kind != CONF_RAW_FLOAT)
		return -1;
	if (!(n >= (double)key->min && n <= (double)key->max))	/* refuses NaN, too */
		return -1;
	*(double *)field = n;
	return 0;
}

static int read_choice(const struct conf_key *key, const struct conf_raw *raw, void *field)
{
	if (raw->kind != CONF_RAW_STRING)
		return -1;
	for (int i = 0; key->choices[i] != NULL; i++)
		if (strcmp(key->choices[i], raw->string) == 0) {
			*(int *)field = i;
			return 0;
		}
	return -1;
}

static int read_octal(const struct conf_key *key, const struct conf_raw *raw, void *field)
{
	unsigned n = 0;

	if (raw->kind != CONF_RAW_STRING || raw->string[0] == '\0' || strlen(raw->string) > 4)
		return -1;
	for (const char *p = raw->string; *p != '\0'; p++) {
		if (*p < '0' || *p > '7')
			return -1;
		n = n * 8 + (unsigned)(*p - '0');
	}
	if (in_range(key, n) == -1)
		return -1;
	*(mode_t *)field = n;
	return 0;
}

/* The time of a rate: "s" in "10/s" means "1s". */
static int read_per(const char *text, int64_t *ms)
{
	char one[16];

	if (*text >= '0' && *text <= '9')
		return units_parse_duration(text, ms);
	return snprintf(one, sizeof(one), "1%s", text) < (int)sizeof(one) ? units_parse_duration(one, ms) : -1;
}

/* "100/1m": a number, and the time for which it counts. */
static int read_rate(const struct conf_key *key, const struct conf_raw *raw, void *field)
{
	struct conf_rate rate;
	char *end;

	if (raw->kind != CONF_RAW_STRING || raw->string[0] < '0' || raw->string[0] > '9')
		return -1;
	errno = 0;
	rate.n = strtoll(raw->string, &end, 10);
	if (errno != 0 || *end != '/' || in_range(key, rate.n) == -1 ||
	    read_per(end + 1, &rate.per_ms) == -1 || rate.per_ms < 1 || rate.per_ms > CONF_RATE_PER_MAX_MS)
		return -1;
	*(struct conf_rate *)field = rate;
	return 0;
}

/* ---- text ---- */

static bool has_control(const char *s)
{
	for (; *s != '\0'; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			return true;
	return false;
}

static void free_string(void *field)
{
	char **s = field;

	if (*s != NULL)
		explicit_bzero(*s, strlen(*s));		/* may be an address with a password in it */
	free(*s);
	*s = NULL;
}

static int read_string(const struct conf_key *key, const struct conf_raw *raw, void *field)
{
	(void)key;
	if (raw->kind != CONF_RAW_STRING || raw->string[0] == '\0' || has_control(raw->string))
		return -1;
	free_string(field);
	*(char **)field = alloc_string(raw->string);
	return 0;
}

static int read_path(const struct conf_key *key, const struct conf_raw *raw, void *field)
{
	if (raw->kind != CONF_RAW_STRING || raw->string[0] != '/' || strlen(raw->string) >= PATH_MAX)
		return -1;
	return read_string(key, raw, field);
}

static void free_strings(void *field)
{
	char ***list = field;

	for (char **s = *list; s != NULL && *s != NULL; s++)
		free_string(s);		/* may set a variable to a secret */
	free(*list);
	*list = NULL;
}

static char **copy_strings(const char *const *from)
{
	char **to;
	size_t n = 0;

	if (from == NULL)
		return NULL;
	while (from[n] != NULL)
		n++;
	to = alloc_zero(n + 1, sizeof(*to));
	for (size_t i = 0; i < n; i++)
		to[i] = alloc_string(from[i]);
	return to;
}

static int read_strings(const struct conf_key *key, const struct conf_raw *raw, void *field)
{
	(void)key;
	if (raw->kind != CONF_RAW_STRINGS || raw->strings[0] == NULL)
		return -1;
	free_strings(field);
	*(char ***)field = copy_strings(raw->strings);
	return 0;
}

static int read_codes(const struct conf_key *key, const struct conf_raw *raw, void *field)
{
	(void)key;
	if (raw->kind != CONF_RAW_CODES)
		return -1;
	memcpy(field, raw->codes, 256 * sizeof(enum conf_outcome));
	return 0;
}

/* ---- comparing and copying ---- */

#define SCALAR(type)                                                                               \
	static bool equal_##type(const void *a, const void *b)                                     \
	{                                                                                          \
		return memcmp(a, b, sizeof(type)) == 0;                                            \
	}                                                                                          \
	static void copy_##type(void *to, const void *from)                                        \
	{                                                                                          \
		memcpy(to, from, sizeof(type));                                                    \
	}
typedef enum conf_outcome codes[256];
typedef struct conf_rate rate;
SCALAR(bool)
SCALAR(int)
SCALAR(int64_t)
SCALAR(double)
SCALAR(mode_t)
SCALAR(rate)
SCALAR(codes)

static bool equal_string(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;

	return x == NULL || y == NULL ? x == y : strcmp(x, y) == 0;
}

static void copy_string(void *to, const void *from)
{
	*(char **)to = alloc_string(*(const char *const *)from);
}

static bool equal_strings(const void *a, const void *b)
{
	const char *const *x = *(const char *const *const *)a, *const *y = *(const char *const *const *)b;

	if (x == NULL || y == NULL)
		return x == y;
	for (; *x != NULL && *y != NULL; x++, y++)
		if (strcmp(*x, *y) != 0)
			return false;
	return *x == NULL && *y == NULL;
}

static void copy_strings_field(void *to, const void *from)
{
	*(char ***)to = copy_strings(*(const char *const *const *)from);
}

static const struct type_ops types[CONF_TYPES] = {
	[CONF_TYPE_BOOL] = { read_bool, equal_bool, copy_bool, NULL },
	[CONF_TYPE_INT] = { read_int, equal_int, copy_int, NULL },
	[CONF_TYPE_COUNT] = { read_count, equal_int64_t, copy_int64_t, NULL },
	[CONF_TYPE_DURATION] = { read_count, equal_int64_t, copy_int64_t, NULL },
	[CONF_TYPE_SIZE] = { read_count, equal_int64_t, copy_int64_t, NULL },
	[CONF_TYPE_FLOAT] = { read_float, equal_double, copy_double, NULL },
	[CONF_TYPE_STRING] = { read_string, equal_string, copy_string, free_string },
	[CONF_TYPE_PATH] = { read_path, equal_string, copy_string, free_string },
	[CONF_TYPE_STRINGS] = { read_strings, equal_strings, copy_strings_field, free_strings },
	[CONF_TYPE_CHOICE] = { read_choice, equal_int, copy_int, NULL },
	[CONF_TYPE_OCTAL] = { read_octal, equal_mode_t, copy_mode_t, NULL },
	[CONF_TYPE_RATE] = { read_rate, equal_rate, copy_rate, NULL },
	[CONF_TYPE_CODES] = { read_codes, equal_codes, copy_codes, NULL },
};

/* ---- values of any type ---- */

void conf_codes_default(enum conf_outcome c[256])
{
	for (int i = 0; i < 256; i++)
		c[i] = CONF_OUTCOME_FAIL;
	c[0] = CONF_OUTCOME_DONE;
	c[75] = CONF_OUTCOME_RETRY;	/* EX_TEMPFAIL */
	c[65] = CONF_OUTCOME_ESCAPE;	/* EX_DATAERR */
}

/* The memory is zeroed; only numbers differ, where -1 is "not set". */
void conf_value_unset(const struct conf_key *key, void *base)
{
	void *field = conf_field(base, key);

	switch (key->type) {
	case CONF_TYPE_INT:
		*(int *)field = -1;
		break;
	case CONF_TYPE_COUNT:
	case CONF_TYPE_DURATION:
	case CONF_TYPE_SIZE:
		*(int64_t *)field = -1;
		break;
	case CONF_TYPE_CODES:
		conf_codes_default(field);
		break;
	default:
		break;
	}
}

int conf_value_read(const struct conf_key *key, const struct conf_raw *raw, void *base)
{
	if (types[key->type].read(key, raw, conf_field(base, key)) == -1)
		return -1;
	if (key->set_offset != 0)
		*(bool *)((char *)base + key->set_offset) = true;
	return 0;
}

static struct conf_raw raw_from_text(const struct conf_key *key, const char *text, enum conf_outcome buffer[256])
{
	switch (key->type) {
	case CONF_TYPE_BOOL:
		return (struct conf_raw){ .kind = CONF_RAW_BOOL, .number = strcmp(text, "true") == 0 };
	case CONF_TYPE_INT:
	case CONF_TYPE_COUNT:
		return (struct conf_raw){ .kind = CONF_RAW_INT, .number = strtoll(text, NULL, 10) };
	case CONF_TYPE_FLOAT:
		return (struct conf_raw){ .kind = CONF_RAW_FLOAT, .real = strtod(text, NULL) };
	case CONF_TYPE_CODES:
		conf_codes_default(buffer);
		return (struct conf_raw){ .kind = CONF_RAW_CODES, .codes = buffer };
	default:
		return (struct conf_raw){ .kind = CONF_RAW_STRING, .string = text };
	}
}

void conf_value_default(const struct conf_key *key, void *base)
{
	enum conf_outcome buffer[256];
	struct conf_raw raw = raw_from_text(key, key->fallback, buffer);
	int rc = types[key->type].read(key, &raw, conf_field(base, key));

	assert(rc == 0);	/* the schema's defaults are valid */
	(void)rc;
}

void conf_value_copy(const struct conf_key *key, void *base, const struct conf_key *from_key, const void *from_base)
{
	assert(key->type == from_key->type);
	conf_value_free(key, base);
	types[key->type].copy(conf_field(base, key), conf_field_const(from_base, from_key));
	if (key->set_offset != 0)
		*(bool *)((char *)base + key->set_offset) =
		    *(const bool *)((const char *)from_base + from_key->set_offset);
}

bool conf_value_holds_secret(const struct conf_key *key, const void *base)
{
	char *const *list = key->secret == CONF_SECRET_VALUES ? *(char *const *const *)conf_field_const(base, key)
	    : NULL;

	if (key->secret == CONF_SECRET_PART)
		return ((const struct conf *)base)->redis.url_had_password;
	for (; list != NULL && *list != NULL; list++)
		if (strchr(*list, '=') != NULL)
			return true;
	return false;
}

bool conf_value_equal(const struct conf_key *key, const void *a, const void *b)
{
	if (key->set_offset != 0 && *(const bool *)((const char *)a + key->set_offset) !=
	    *(const bool *)((const char *)b + key->set_offset))
		return false;
	return types[key->type].equal(conf_field_const(a, key), conf_field_const(b, key));
}

void conf_value_free(const struct conf_key *key, void *base)
{
	if (types[key->type].free != NULL)
		types[key->type].free(conf_field(base, key));
}
