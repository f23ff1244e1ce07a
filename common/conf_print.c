/*
 * -T: the configuration in effect, in a form that parses again to an equal one. Each value says where it came
 * from. What cannot or need not be written down again is a comment: unset values, those that follow from
 * others, passwords, what `env` sets.
 */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/conf.h"

#include "common/alloc.h"
#include "common/conf_load.h"
#include "common/conf_schema.h"
#include "common/conf_types.h"

struct printer {
	FILE *out;
	int depth;
	char group[128];	/* that is open: "health.thresholds"; "": none */
};

static void indent(const struct printer *p)
{
	for (int i = 0; i < p->depth; i++)
		putc('\t', p->out);
}

/* ---- groups open and close as the keys, which stand in order, ask for it ---- */

static bool inside(const char *path, const char *group)
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

/* Returns the last part of path, standing in its group. */
static const char *enter(struct printer *p, const char *path)
{
	while (!inside(path, p->group))
		close_group(p);
	while (strchr(path + strlen(p->group) + (p->group[0] != '\0'), '.') != NULL)
		open_group(p, path);
	return path + strlen(p->group) + (p->group[0] != '\0');
}

static void leave_all(struct printer *p)
{
	while (p->group[0] != '\0')
		close_group(p);
}

/* ---- values ---- */

/* A file name may hold anything, but a comment ends with its line. */
static void print_plain(const char *s, FILE *out)
{
	for (; *s != '\0'; s++)
		putc((unsigned char)*s < ' ' || *s == 0x7f ? '?' : *s, out);
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
		print_plain(place, p->out);
		free(place);
		break;
	}
}

/* The entries of `env` if it sets values, which may be secrets. NULL: it sets none. */
static char *const *secret_env(const struct conf_key *key, const void *base)
{
	char *const *env = strcmp(key->path, "env") == 0 ? ((const struct conf_queue *)base)->env : NULL;

	for (char *const *e = env; e != NULL && *e != NULL; e++)
		if (strchr(*e, '=') != NULL)
			return env;
	return NULL;
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

static void print_key(struct printer *p, const struct conf_key *key, const void *base, const struct conf_origin *o,
    const char *note)
{
	const char *name = enter(p, key->path);
	char *const *secret = secret_env(key, base);
	bool comment = o->kind == CONF_ORIGIN_NONE || o->kind == CONF_ORIGIN_INHERITED || o->kind == CONF_ORIGIN_DERIVED;

	indent(p);
	fprintf(p->out, "%s%s =", comment || secret != NULL ? "# " : "", name);
	if (o->kind != CONF_ORIGIN_NONE) {
		putc(' ', p->out);
		if (secret != NULL)
			print_names(secret, p->out);
		else
			conf_value_print(key, base, p->out);
		putc(';', p->out);
	}
	print_origin(p, o);
	fprintf(p->out, "%s%s\n", note, secret == NULL ? "" : "; the values are left out here");
}

static void print_globals(struct printer *p, const struct conf *conf)
{
	bool masked = conf->redis.password != NULL && conf->redis.password_file == NULL;

	for (size_t i = 0; i < conf_schema_global.n; i++) {
		const struct conf_key *key = &conf_schema_global.keys[i];
		bool url = strcmp(key->path, "redis.url") == 0;

		print_key(p, key, conf, &conf->origins[i], url && masked ? "; the password is left out here" : "");
	}
	leave_all(p);
}

static void print_queue(struct printer *p, const struct conf_queue *q)
{
	fputs("\t{\n", p->out);
	p->depth = 2;
	for (size_t i = 0; i < conf_schema_queue.n; i++)
		print_key(p, &conf_schema_queue.keys[i], q, &q->origins[i], "");
	leave_all(p);
	fputs("\t}", p->out);
}

static void print_all(struct printer *p, const struct conf *conf)
{
	print_globals(p, conf);
	fputs("\nqueues = (\n", p->out);
	for (size_t i = 0; i < conf->nqueues; i++) {
		print_queue(p, conf->queues[i]);
		fputs(i + 1 < conf->nqueues ? ",\n" : "\n", p->out);
	}
	fputs(");\n", p->out);
}

void conf_print(const struct conf *conf, FILE *out)
{
	struct printer p = { .out = out };
	locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0), before = (locale_t)0;

	if (c != (locale_t)0)
		before = uselocale(c);
	print_all(&p, conf);
	if (c != (locale_t)0) {
		uselocale(before);
		freelocale(c);
	}
}
