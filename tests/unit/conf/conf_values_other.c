/* For each key of the table a value that is not its default. */
#include <stdbool.h>
#include <string.h>

#include "tests/unit/conf/conf_values_other.h"

#include "common/base/nitems.h"
#include "common/base/units.h"

const char *conf_default_text(const struct conf_key *key)
{
	if (key->fallback != NULL || key->inherits == NULL)
		return key->fallback;
	return conf_key_find(&conf_schema_global, key->inherits)->fallback;
}

/* Some keys are also checked for what they say. */
static const char *special(const struct conf_key *key)
{
	static const char *const values[][2] = {
		{ "redis.url", "\"redis://other:1/2\"" }, { "log.target", "\"/other\"" },
		{ "metrics.statsd", "\"other:8125\"" }, { "web.listen", "\"other:7379\"" }, { "backoff.base", "\"2s\"" },
		{ "env", "[\"OTHER=1\", \"PATH\"]" }, { "health.thresholds.dlq_max_warning", "1" },
		{ "redis.embedded", "true; dir = \"/other\"" },
		{ "redis.sentinels", "[\"s1\", \"s2:1\"]; master = \"m\"" }, { "redis.master", "\"m\"; sentinels = [\"s1\"]" },
		 { "kill_grace", "\"20m\"" },	/* a third of the lease: fence is "kill" */
	};

	for (size_t i = 0; i < nitems(values); i++)
		if (strcmp(values[i][0], key->path) == 0)
			return values[i][1];
	return NULL;
}

char *conf_other_value(const struct conf_key *key)
{
	char text[UNITS_SIZE];
	struct buffer b = {0};
	const char *known = special(key), *fallback = conf_default_text(key);
	size_t last = 0;

	while (key->choices != NULL && key->choices[last + 1] != NULL)
		last++;
	if (known != NULL)
		buffer_format(&b, "%s", known);
	else if (key->type == CONF_TYPE_BOOL)
		buffer_format(&b, "%s", fallback != NULL && strcmp(fallback, "true") == 0 ? "false" : "true");
	else if (key->type == CONF_TYPE_INT || key->type == CONF_TYPE_FLOAT)
		buffer_format(&b, "%lld", (long long)key->max);
	else if (key->type == CONF_TYPE_COUNT)
		buffer_format(&b, "%lldL", (long long)key->max);
	else if (key->type == CONF_TYPE_DURATION)
		buffer_format(&b, "\"%s\"", units_format_duration(key->max, text));
	else if (key->type == CONF_TYPE_SIZE)
		buffer_format(&b, "\"%s\"", units_format_size(key->max, text));
	else if (key->type == CONF_TYPE_CHOICE)
		buffer_format(&b, "\"%s\"", key->choices[last]);
	else if (key->type == CONF_TYPE_STRINGS)
		buffer_format(&b, "[\"/other\", \"x\"]");
	else if (key->type == CONF_TYPE_RATE)
		buffer_format(&b, "\"%lld/1m\"", (long long)key->max);
	else if (key->type == CONF_TYPE_OCTAL)
		buffer_format(&b, "\"0123\"");
	else if (key->type == CONF_TYPE_CODES)
		buffer_format(&b, "{ done = [9]; fail = [75]; }");
	else
		buffer_format(&b, "\"%sother.%s\"", key->type == CONF_TYPE_PATH ? "/" : "", key->path);
	buffer_append(&b, "", 1);
	return b.data;
}

void conf_nest(struct buffer *b, const char *path, const char *value)
{
	int depth = 0;

	for (const char *dot; (dot = strchr(path, '.')) != NULL; path = dot + 1, depth++)
		buffer_format(b, "%.*s = { ", (int)(dot - path), path);
	buffer_format(b, "%s = %s;", path, value);
	while (depth-- > 0)
		buffer_format(b, " };");
	buffer_format(b, "\n");
}
