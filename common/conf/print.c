/*
 * Prints a configuration in effect (quredisd -T), so that it parses again to an equal one, with the origin of each
 * value as a comment. Values that cannot or need not be written down again are comments: unset ones, those that follow
 * from others, passwords, and what `env` sets, which may be secret. Also describes in errors what a key accepts.
 */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"
#include "common/conf/schema.h"
#include "common/conf/types.h"

/* ---- one value ---- */

static const char *const outcome_names[] = { [CONF_OUTCOME_FAIL] = "fail", [CONF_OUTCOME_DONE] = "done",
	[CONF_OUTCOME_RETRY] = "retry", [CONF_OUTCOME_ESCAPE] = "escape" };

static void print_string(const char *s, FILE *out)
{
	putc('"', out);
	for (; *s != '\0'; s++) {
		if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else if (*s == '\n')
			fputs("\\n", out);
		else if ((unsigned char)*s < ' ' || *s == 0x7f)
			fprintf(out, "\\x%02x", (unsigned char)*s);
		else
			putc(*s, out);
	}
	putc('"', out);
}

static void print_strings(const char *const *list, FILE *out)
{
	putc('[', out);
	for (size_t i = 0; list[i] != NULL; i++) {
		fputs(i == 0 ? "" : ", ", out);
		print_string(list[i], out);
	}
	putc(']', out);
}

/* Prints the shortest decimal that parses to the same number, always with a point: libconfig would read it as an
 * integer otherwise. */
static void print_float(double n, FILE *out)
{
	char text[64];

	for (int precision = 1; precision < 18; precision++) {
		snprintf(text, sizeof(text), "%.*f", precision, n);
		if (strtod(text, NULL) <= n && strtod(text, NULL) >= n)
			break;
	}
	if (strtod(text, NULL) < n || strtod(text, NULL) > n)
		snprintf(text, sizeof(text), "%.17e", n);
	fputs(text, out);
}

/* `fail` lists only codes that have another meaning by default. */
static void print_codes(const enum conf_outcome codes[256], FILE *out)
{
	static const enum conf_outcome order[] = { CONF_OUTCOME_DONE, CONF_OUTCOME_RETRY, CONF_OUTCOME_ESCAPE,
		CONF_OUTCOME_FAIL };
	enum conf_outcome defaults[256];

	conf_codes_default(defaults);
	fputs("{", out);
	for (size_t i = 0; i < nitems(order); i++) {
		const char *comma = "";

		fprintf(out, " %s = [", outcome_names[order[i]]);
		for (int code = 0; code < 256; code++) {
			if (codes[code] != order[i] || (order[i] == CONF_OUTCOME_FAIL && defaults[code] == order[i]))
				continue;
			fprintf(out, "%s%d", comma, code);
			comma = ", ";
		}
		fputs("];", out);
	}
	fputs(" }", out);
}

const char *conf_rate_text(const struct conf_rate *r, char out[CONF_RATE_TEXT_SIZE])
{
	char per[UNITS_SIZE];

	snprintf(out, CONF_RATE_TEXT_SIZE, "%lld/%s", (long long)r->n, units_format_duration(r->per_ms, per));
	return out;
}

void conf_value_print(const struct conf_key *key, const void *base, FILE *out)
{
	const void *field = conf_field_const(base, key);
	char text[UNITS_SIZE], rate[CONF_RATE_TEXT_SIZE];

	switch (key->type) {
	case CONF_TYPE_BOOL:
		fputs(*(const bool *)field ? "true" : "false", out);
		break;
	case CONF_TYPE_INT:
		fprintf(out, "%d", *(const int *)field);
		break;
	case CONF_TYPE_COUNT:	/* libconfig wraps a large integer without the L */
		fprintf(out, *(const int64_t *)field > INT32_MAX ? "%lldL" : "%lld",
		    (long long)*(const int64_t *)field);
		break;
	case CONF_TYPE_DURATION:
		fprintf(out, "\"%s\"", units_format_duration(*(const int64_t *)field, text));
		break;
	case CONF_TYPE_SIZE:
		fprintf(out, "\"%s\"", units_format_size(*(const int64_t *)field, text));
		break;
	case CONF_TYPE_FLOAT:
		print_float(*(const double *)field, out);
		break;
	case CONF_TYPE_STRING:
	case CONF_TYPE_PATH:
		print_string(*(const char *const *)field, out);
		break;
	case CONF_TYPE_STRINGS:
		print_strings(*(const char *const *const *)field, out);
		break;
	case CONF_TYPE_CHOICE:
		fprintf(out, "\"%s\"", key->choices[*(const int *)field]);
		break;
	case CONF_TYPE_OCTAL:
		fprintf(out, "\"%03o\"", *(const mode_t *)field);
		break;
	case CONF_TYPE_RATE:
		fprintf(out, "\"%s\"", conf_rate_text(field, rate));
		break;
	case CONF_TYPE_CODES:
		print_codes(field, out);
		break;
	case CONF_TYPES:
		break;
	}
}

static char *expected_choice(const struct conf_key *key)
{
	struct buffer b = {0};

	for (size_t i = 0; key->choices[i] != NULL; i++)
		buffer_format(&b, "%s\"%s\"", i == 0 ? "" : key->choices[i + 1] == NULL ? " or " : ", ",
		    key->choices[i]);
	return b.data;
}

char *conf_value_expected(const struct conf_key *key)
{
	char least[UNITS_SIZE], most[UNITS_SIZE];

	switch (key->type) {
	case CONF_TYPE_BOOL:
		return alloc_string("true or false");
	case CONF_TYPE_INT:
	case CONF_TYPE_COUNT:
		return alloc_format("a whole number, %lld to %lld", (long long)key->min, (long long)key->max);
	case CONF_TYPE_DURATION:
		return alloc_format("a duration in quotes such as \"30s\" (ms s m h d), %s to %s",
		    units_format_duration(key->min, least), units_format_duration(key->max, most));
	case CONF_TYPE_SIZE:
		return alloc_format("a size in quotes such as \"64K\" (K M G T), %s to %s",
		    units_format_size(key->min, least), units_format_size(key->max, most));
	case CONF_TYPE_FLOAT:
		return alloc_format("a number, %lld to %lld", (long long)key->min, (long long)key->max);
	case CONF_TYPE_STRING:
		return alloc_string("a text in quotes, not empty, without control characters");
	case CONF_TYPE_PATH:
		return alloc_string("an absolute path in quotes");
	case CONF_TYPE_STRINGS:
		return alloc_string("a list of texts such as [\"one\", \"two\"]");
	case CONF_TYPE_CHOICE:
		return expected_choice(key);
	case CONF_TYPE_RATE:
		return alloc_format("a rate in quotes such as \"100/1m\": a number, %lld to %lld, and a duration, "
		    "1ms to %s", (long long)key->min, (long long)key->max,
		    units_format_duration(CONF_RATE_PER_MAX_MS, most));
	case CONF_TYPE_OCTAL:
		return alloc_string("an octal number in quotes such as \"077\"");
	default:
		return alloc_string("a group of lists such as { done = [0]; retry = [75]; }");
	}
}

struct printer {
	FILE *out;
	int depth;
	char group[128];	/* the open group, such as "health.thresholds"; "": none */
};

static void indent(const struct printer *p)
{
	for (int i = 0; i < p->depth; i++)
		putc('\t', p->out);
}

/* ---- groups: opened and closed by the paths of the keys, which the schema groups ---- */

static bool is_inside(const char *path, const char *group)
{
	size_t len = strlen(group);

	return len == 0 || (strncmp(path, group, len) == 0 && path[len] == '.');
}

static void close_group(struct printer *p)
{
	char *dot = strrchr(p->group, '.');

	p->depth--;
	indent(p);
	fputs("};\n", p->out);
	*(dot == NULL ? p->group : dot) = '\0';
}

static void open_group(struct printer *p, const char *path)
{
	const char *name = path + strlen(p->group) + (p->group[0] != '\0');
	int len = (int)strcspn(name, ".");

	if (p->depth == 0)
		putc('\n', p->out);
	indent(p);
	fprintf(p->out, "%.*s = {\n", len, name);
	p->depth++;
	strlcpy(p->group, path, (size_t)(name + len - path) + 1);
}

/* Opens the group of path and closes others. Returns the last part of path. */
static const char *enter_group(struct printer *p, const char *path)
{
	while (!is_inside(path, p->group))
		close_group(p);
	while (strchr(path + strlen(p->group) + (p->group[0] != '\0'), '.') != NULL)
		open_group(p, path);
	return path + strlen(p->group) + (p->group[0] != '\0');
}

static void print_origin(const struct printer *p, const struct conf_origin *o)
{
	char *place;

	fputs("\t# ", p->out);
	switch (o->kind) {
	case CONF_ORIGIN_NONE:
		fputs("not set", p->out);
		break;
	case CONF_ORIGIN_DEFAULT:
	case CONF_ORIGIN_BAD:
		fputs("default", p->out);
		break;
	case CONF_ORIGIN_INHERITED:
		fprintf(p->out, "as %s", o->from);
		break;
	case CONF_ORIGIN_DERIVED:
		fprintf(p->out, "from %s", o->from);
		break;
	case CONF_ORIGIN_FILE:
	case CONF_ORIGIN_ENVIRONMENT:
		place = conf_place(o);
		for (const char *s = place; *s != '\0'; s++)	/* a newline in a file name would end the comment */
			putc((unsigned char)*s < ' ' || *s == 0x7f ? '?' : *s, p->out);
		free(place);
		break;
	}
}

static void print_names(char *const *env, FILE *out)
{
	putc('[', out);
	for (; *env != NULL; env++) {
		int len = (int)strcspn(*env, "=");

		fprintf(out, "\"%.*s%s\"%s", len, *env, (*env)[len] == '=' ? "=***" : "", env[1] == NULL ? "" : ", ");
	}
	putc(']', out);
}

static void print_key(struct printer *p, const struct conf_key *key, const void *base, const struct conf_origin *o)
{
	const char *name = enter_group(p, key->path);
	bool holds = conf_value_holds_secret(key, base), masked = holds && key->secret == CONF_SECRET_VALUES;
	bool comment = o->kind == CONF_ORIGIN_NONE || o->kind == CONF_ORIGIN_INHERITED ||
	    o->kind == CONF_ORIGIN_DERIVED;

	indent(p);
	fprintf(p->out, "%s%s =", comment || masked ? "# " : "", name);
	if (o->kind != CONF_ORIGIN_NONE) {
		putc(' ', p->out);
		if (masked)
			print_names(*(char *const *const *)conf_field_const(base, key), p->out);
		else
			conf_value_print(key, base, p->out);
		putc(';', p->out);
	}
	print_origin(p, o);
	fputs(!holds ? "\n" : masked ? "; the values are left out here\n" : "; the password is left out here\n",
	    p->out);
}

static void print_keys(struct printer *p, const struct conf_schema *schema, const void *base,
    const struct conf_origin *origins)
{
	for (size_t i = 0; i < schema->n; i++)
		print_key(p, &schema->keys[i], base, &origins[i]);
	while (p->group[0] != '\0')
		close_group(p);
}

static void print_in_list(struct printer *p, const struct conf_schema *schema, const void *base,
    const struct conf_origin *origins, bool last)
{
	fputs("\t{\n", p->out);
	p->depth = 2;
	print_keys(p, schema, base, origins);
	fputs(last ? "\t}\n" : "\t},\n", p->out);
}

static void print_queues(struct printer *p, const struct conf *conf)
{
	fputs("\nqueues = (\n", p->out);
	for (size_t i = 0; i < conf->nqueues; i++)
		print_in_list(p, &conf_schema_queue, conf->queues[i], conf->queues[i]->origins, i + 1 == conf->nqueues);
	fputs(");\n", p->out);
}

static void print_schedules(struct printer *p, const struct conf *conf)
{
	if (conf->nschedules == 0)
		return;
	fputs("\nschedules = (\n", p->out);
	for (size_t i = 0; i < conf->nschedules; i++)
		print_in_list(p, &conf_schema_schedule, conf->schedules[i], conf->schedules[i]->origins,
		    i + 1 == conf->nschedules);
	fputs(");\n", p->out);
}

static void print_throttles(struct printer *p, const struct conf *conf)
{
	if (conf->nthrottles == 0)
		return;
	fputs("\nthrottles = (\n", p->out);
	for (size_t i = 0; i < conf->nthrottles; i++)
		print_in_list(p, &conf_schema_throttle, conf->throttles[i], conf->throttles[i]->origins,
		    i + 1 == conf->nthrottles);
	fputs(");\n", p->out);
}

void conf_print(const struct conf *conf, FILE *out)
{
	struct printer p = { .out = out };
	locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0), before = (locale_t)0;

	if (c != (locale_t)0)
		before = uselocale(c);
	print_keys(&p, &conf_schema_global, conf, conf->origins);
	print_queues(&p, conf);
	print_schedules(&p, conf);
	print_throttles(&p, conf);
	if (c != (locale_t)0) {
		uselocale(before);
		freelocale(c);
	}
}
