/*
 * Parses the text of one file with libconfig, and stores its settings in struct conf. Each setting is looked up in the
 * schema, read by its type, and given its origin (file and line). Only the lists, `defaults` and exit_codes are known
 * by name here.
 */
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>
#include <libconfig.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"

/* ---- exit_codes = { done = [0]; retry = [75]; escape = [65]; fail = [..]; } ---- */

static const struct {
	const char *name;
	enum conf_outcome outcome;
} outcomes[] = {
	{ "done", CONF_OUTCOME_DONE },
	{ "retry", CONF_OUTCOME_RETRY },
	{ "escape", CONF_OUTCOME_ESCAPE },
	{ "fail", CONF_OUTCOME_FAIL },
};

struct codes {
	struct conf_loading *l;
	const struct conf_source *source;
	enum conf_outcome *map;
	bool given[256];
	bool bad;
};

static void refuse_codes(struct codes *c, const config_setting_t *s, const char *what, const char *name)
{
	struct conf_origin where = { CONF_ORIGIN_FILE, (int)config_setting_source_line(s), c->source->name };

	conf_error(c->l, &where, "exit_codes.%s: %s", name, what);
	c->bad = true;
}

static void read_code(struct codes *c, const config_setting_t *s, const char *name, enum conf_outcome outcome)
{
	int code = config_setting_get_int(s);

	if (config_setting_type(s) != CONFIG_TYPE_INT || code < 0 || code > 255) {
		refuse_codes(c, s, "expected whole numbers, 0 to 255", name);
	} else if (c->given[code]) {
		refuse_codes(c, s, "the code is listed twice in exit_codes", name);
	} else {
		c->given[code] = true;
		c->map[code] = outcome;
	}
}

static void read_codes_list(struct codes *c, const config_setting_t *list)
{
	const char *name = config_setting_name(list);
	size_t i = 0;

	while (i < nitems(outcomes) && strcmp(outcomes[i].name, name) != 0)
		i++;
	if (i == nitems(outcomes)) {
		refuse_codes(c, list, "expected done, retry, escape or fail", name);
	} else if (!config_setting_is_array(list) && !config_setting_is_list(list)) {
		refuse_codes(c, list, "expected a list of whole numbers such as [75, 111]", name);
	} else {
		for (int k = 0; k < config_setting_length(list); k++)
			read_code(c, config_setting_get_elem(list, (unsigned)k), name, outcomes[i].outcome);
	}
}

static int read_codes(struct conf_loading *l, const struct conf_source *s, const struct config_setting_t *group,
    enum conf_outcome codes[256])
{
	struct codes c = { .l = l, .source = s, .map = codes };

	conf_codes_default(codes);
	for (int i = 0; i < config_setting_length(group); i++)
		read_codes_list(&c, config_setting_get_elem(group, (unsigned)i));
	return c.bad ? -1 : 0;
}

/* The destination of the settings of a group. */
struct target {
	struct conf_loading *l;
	const struct conf_source *source;
	const struct conf_schema *schema;
	void *base;
	struct conf_origin *origins;
	bool defaults;
};

static struct conf_origin place(const struct target *t, const config_setting_t *s)
{
	return (struct conf_origin){ CONF_ORIGIN_FILE, (int)config_setting_source_line(s), t->source->name };
}

/* ---- one value ---- */

static const char **texts_of(const config_setting_t *list)
{
	unsigned n = (unsigned)config_setting_length(list);
	const char **texts = alloc_zero(n + 1, sizeof(*texts));

	for (unsigned i = 0; i < n; i++) {
		texts[i] = config_setting_get_string(config_setting_get_elem(list, i));
		if (texts[i] == NULL) {
			free(texts);
			return NULL;
		}
	}
	return texts;
}

/* The caller frees *texts when it has used the result. */
static struct conf_raw raw_of(const config_setting_t *s, const char ***texts)
{
	switch (config_setting_type(s)) {
	case CONFIG_TYPE_BOOL:
		return (struct conf_raw){ .kind = CONF_RAW_BOOL, .number = config_setting_get_bool(s) };
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		return (struct conf_raw){ .kind = CONF_RAW_INT, .number = config_setting_get_int64(s) };
	case CONFIG_TYPE_FLOAT:
		return (struct conf_raw){ .kind = CONF_RAW_FLOAT, .real = config_setting_get_float(s) };
	case CONFIG_TYPE_STRING:
		return (struct conf_raw){ .kind = CONF_RAW_STRING, .string = config_setting_get_string(s) };
	case CONFIG_TYPE_ARRAY:
	case CONFIG_TYPE_LIST:
		*texts = texts_of(s);
		return (struct conf_raw){ .kind = *texts == NULL ? CONF_RAW_OTHER : CONF_RAW_STRINGS,
		    .strings = *texts };
	default:
		return (struct conf_raw){ .kind = CONF_RAW_OTHER };
	}
}

/* Returns ", not 60" as a new string. Repeats only values that cannot be secrets. */
static char *not_value(const struct conf_key *key, const struct conf_raw *raw)
{
	bool quote = key->type == CONF_TYPE_DURATION || key->type == CONF_TYPE_SIZE || key->type == CONF_TYPE_CHOICE ||
	    key->type == CONF_TYPE_BOOL || key->type == CONF_TYPE_PATH || key->type == CONF_TYPE_OCTAL ||
	    key->type == CONF_TYPE_RATE;

	switch ((int)raw->kind) {
	case CONF_RAW_BOOL:
		return alloc_format(", not %s", raw->number != 0 ? "true" : "false");
	case CONF_RAW_INT:
		return alloc_format(", not %lld", (long long)raw->number);
	case CONF_RAW_FLOAT:
		return alloc_format(", not %g", raw->real);
	case CONF_RAW_STRING:
		return quote && strlen(raw->string) < 100 ? alloc_format(", not \"%s\"", raw->string)
		    : quote ? alloc_string("") : alloc_string(raw->string[0] == '\0' ? ", not \"\"" : "");
	default:
		return alloc_string("");
	}
}

static void refuse_value(const struct target *t, const struct conf_key *key, const struct conf_origin *where,
    const struct conf_raw *raw)
{
	char *expected = conf_value_expected(key), *not = not_value(key, raw);
	const char *advice = raw->kind == CONF_RAW_STRING ? conf_value_advice(key->path, raw->string) : NULL;

	conf_error(t->l, where, "%s: expected %s%s%s%s", key->path, expected, not, advice == NULL ? "" : ": ",
	    advice == NULL ? "" : advice);
	free(expected);
	free(not);
}

static bool is_wrapped(const struct conf_source *s, int line)
{
	for (size_t i = 0; i < s->nwrapped; i++)
		if (s->wrapped[i] == line)
			return true;
	return false;
}

static int store_value(const struct target *t, const struct conf_key *key, const config_setting_t *s,
    const struct conf_origin *where)
{
	enum conf_outcome codes[256];
	const char **texts = NULL;
	struct conf_raw raw;
	int rc;

	if (key->type == CONF_TYPE_CODES && config_setting_is_group(s)) {
		raw = (struct conf_raw){ .kind = CONF_RAW_CODES, .codes = codes };
		if (read_codes(t->l, t->source, s, codes) == -1)
			return -1;
	} else {
		raw = raw_of(s, &texts);
	}
	rc = raw.kind == CONF_RAW_INT && is_wrapped(t->source, where->line) ? -1 : conf_value_read(key, &raw, t->base);
	if (rc == -1 && !is_wrapped(t->source, where->line))
		refuse_value(t, key, where, &raw);
	free(texts);
	return rc;
}

/* Refuses a key that an earlier file has set; libconfig refuses two in one file. */
static bool is_first(const struct target *t, const struct conf_key *key, const struct conf_origin *where)
{
	const struct conf_origin *before = &t->origins[key - t->schema->keys];
	char *place_before;

	if (before->kind == CONF_ORIGIN_NONE)
		return true;
	place_before = conf_place(before);
	conf_error(t->l, where, "%s%s is already set at %s", t->defaults ? "defaults." : "", key->path, place_before);
	free(place_before);
	return false;
}

static void warn_if_deprecated(const struct target *t, const struct conf_key *key, const struct conf_origin *where)
{
	const struct deprecated *d = deprecated_find(DEPRECATED_KEY, t->schema->prefix, key->path);
	char *advice;

	if (d == NULL)
		return;
	advice = deprecated_advice(d);
	conf_warning(t->l, where, "%s is %s", key->path, advice);
	free(advice);
}

static void read_key(const struct target *t, const struct conf_key *key, const config_setting_t *s)
{
	struct conf_origin where = place(t, s), *origin = &t->origins[key - t->schema->keys];

	if (t->defaults && (key->flags & CONF_QUEUE_ONLY) != 0) {
		conf_error(t->l, &where, "'%s' is not allowed in defaults: each queue has its own", key->path);
		return;
	}
	if (!is_first(t, key, &where))
		return;
	warn_if_deprecated(t, key, &where);
	*origin = where;
	if (store_value(t, key, s, &where) == -1)
		origin->kind = CONF_ORIGIN_BAD;
	if (config_setting_type(s) == CONFIG_TYPE_STRING)	/* may be an address with a password in it */
		explicit_bzero(s->value.sval, strlen(s->value.sval));
}

/* ---- groups ---- */

static void read_group(const struct target *t, const char *prefix, const config_setting_t *group);

static void read_unknown(const struct target *t, const char *prefix, const config_setting_t *s)
{
	struct conf_origin where = place(t, s);
	char *text = conf_unknown(t->schema, prefix, config_setting_name(s));
	const char *now = conf_renamed_group(config_setting_name(s));

	conf_error(t->l, &where, "%s", text);
	free(text);
	if (now != NULL && config_setting_is_group(s) && t->schema == &conf_schema_global) {
		char *below = alloc_format("%s.", now);

		read_group(t, below, s);
		free(below);
	}
}

static void read_subgroup(const struct target *t, const char *path, const config_setting_t *s)
{
	struct conf_origin where = place(t, s);
	char *below = alloc_format("%s.", path);

	if (config_setting_is_group(s)) {
		read_group(t, below, s);
	} else {
		char *has = conf_group_members(t->schema, below);

		conf_error(t->l, &where, "'%s' is a group: %s = { ... }; with %s", path, config_setting_name(s), has);
		free(has);
	}
	free(below);
}

static void read_member(const struct target *t, const char *prefix, const config_setting_t *s)
{
	char *path = alloc_format("%s%s", prefix, config_setting_name(s));
	const struct conf_key *key = conf_key_find(t->schema, path);

	if (key != NULL)
		read_key(t, key, s);
	else if (conf_key_is_group(t->schema, path))
		read_subgroup(t, path, s);
	else
		read_unknown(t, prefix, s);
	free(path);
}

static void read_group(const struct target *t, const char *prefix, const config_setting_t *group)
{
	for (int i = 0; i < config_setting_length(group); i++)
		read_member(t, prefix, config_setting_get_elem(group, (unsigned)i));
}

/* A list of groups, such as `queues`. add: makes what one of them describes, and points t at it. */
struct list {
	const char *name, *example;
	void (*add)(struct target *t, const struct conf_origin *where);
};

static void add_queue(struct target *t, const struct conf_origin *where)
{
	struct conf_queue *q = conf_queue_add(t->l->conf);

	*conf_queue_place(q) = *where;
	t->schema = &conf_schema_queue;
	t->base = q;
	t->origins = q->origins;
}

static void add_schedule(struct target *t, const struct conf_origin *where)
{
	struct conf_schedule *s = conf_schedule_add(t->l->conf);

	*conf_schedule_place(s) = *where;
	t->schema = &conf_schema_schedule;
	t->base = s;
	t->origins = s->origins;
}

static void add_throttle(struct target *t, const struct conf_origin *where)
{
	struct conf_throttle *throttle = conf_throttle_add(t->l->conf);

	*conf_throttle_place(throttle) = *where;
	t->schema = &conf_schema_throttle;
	t->base = throttle;
	t->origins = throttle->origins;
}

static const struct list lists[] = {
	{ "queues", "{ name = \"...\"; handler = [\"...\"]; }", add_queue },
	{ "schedules", "{ name = \"...\"; queue = \"...\"; cron = \"...\"; message = \"...\"; }", add_schedule },
	{ "throttles", "{ name = \"...\"; rate = \"100/1m\"; }", add_throttle },
};

static void read_in_list(const struct target *file, const struct list *list, const config_setting_t *s)
{
	struct target t = *file;
	struct conf_origin where = place(file, s);

	if (!config_setting_is_group(s)) {
		conf_error(file->l, &where, "expected a group for each %.*s: %s", (int)strlen(list->name) - 1,
		    list->name, list->example);
		return;
	}
	list->add(&t, &where);
	read_group(&t, "", s);
}

static void read_list(const struct target *file, const struct list *list, const config_setting_t *s)
{
	struct conf_origin where = place(file, s);

	if (!config_setting_is_list(s) && !(config_setting_is_array(s) && config_setting_length(s) == 0)) {
		conf_error(file->l, &where,
		    "'%s' is a list: %s = ( { name = \"...\"; }, { name = \"...\"; } );", list->name, list->name);
		return;
	}
	for (int i = 0; i < config_setting_length(s); i++)
		read_in_list(file, list, config_setting_get_elem(s, (unsigned)i));
}

static const struct list *list_called(const char *name)
{
	for (size_t i = 0; i < nitems(lists); i++)
		if (strcmp(lists[i].name, name) == 0)
			return &lists[i];
	return NULL;
}

static void read_defaults(const struct target *file, const config_setting_t *s)
{
	struct target t = *file;
	struct conf_origin where = place(file, s);

	if (!config_setting_is_group(s)) {
		conf_error(file->l, &where, "'defaults' is a group: defaults = { ... };");
		return;
	}
	t.schema = &conf_schema_queue;
	t.base = &file->l->defaults;
	t.origins = file->l->defaults.origins;
	t.defaults = true;
	read_group(&t, "", s);
}

static void read_file(const struct target *file, const config_setting_t *root)
{
	for (int i = 0; i < config_setting_length(root); i++) {
		const config_setting_t *s = config_setting_get_elem(root, (unsigned)i);
		const char *name = config_setting_name(s);

		if (list_called(name) != NULL)
			read_list(file, list_called(name), s);
		else if (strcmp(name, "defaults") == 0)
			read_defaults(file, s);
		else
			read_member(file, "", s);
	}
}

/* Ends the process if libconfig had no memory for a name or a text. libconfig does not check that, and the setting
 * would be read as another one. */
static void check_memory(const config_setting_t *s)
{
	bool named = config_setting_parent(s) != NULL && config_setting_is_group(config_setting_parent(s));

	if ((named && config_setting_name(s) == NULL) ||
	    (config_setting_type(s) == CONFIG_TYPE_STRING && s->value.sval == NULL))
		alloc_failed();
	for (int i = 0; config_setting_is_aggregate(s) && i < config_setting_length(s); i++)
		check_memory(config_setting_get_elem(s, (unsigned)i));
}

void conf_parse(struct conf_loading *l, const struct conf_source *source)
{
	struct target file = { .l = l, .source = source, .schema = &conf_schema_global, .base = l->conf,
		.origins = l->conf->origins };
	config_t tree;

	config_init(&tree);
	if (config_read_string(&tree, source->text) == CONFIG_TRUE) {
		check_memory(config_root_setting(&tree));
		read_file(&file, config_root_setting(&tree));
	} else {
		const char *text = config_error_text(&tree);
		bool syntax = text == NULL || strcmp(text, "syntax error") == 0;
		struct conf_origin where = { CONF_ORIGIN_FILE, config_error_line(&tree), source->name };

		char *dotted = syntax ? conf_dotted_advice(source->text, where.line) : NULL;

		conf_error(l, &where, "%s here or just before%s", syntax ? "syntax error" : text, dotted != NULL
		    ? dotted : syntax ? "; write name = \"text\"; number = 5; queues = ( { ... } );" : "");
		free(dotted);
		l->broken = true;
	}
	config_destroy(&tree);
}
