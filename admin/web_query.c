/* The parameters of a request: read strictly, so that a misspelt one is an error and not a larger purge. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>

#include "admin/web_query.h"

#include "admin/visible.h"
#include "common/alloc.h"
#include "common/duration.h"
#include "common/nearest.h"
#include "common/nitems.h"

static int take_text(char **field, char *value)
{
	*field = value;
	return 0;
}

static int take_flag(bool *field, char *value)
{
	bool is_true = strcmp(value, "true") == 0, known = is_true || strcmp(value, "false") == 0;

	free(value);
	*field = is_true;
	return known ? 0 : -1;
}

static int take_queue(struct web_query *q, char *value) { return take_text(&q->queue, value); }
static int take_list(struct web_query *q, char *value) { return take_text(&q->list, value); }
static int take_class(struct web_query *q, char *value) { return take_text(&q->class, value); }
static int take_before(struct web_query *q, char *value) { return take_text(&q->before, value); }
static int take_all(struct web_query *q, char *value) { return take_flag(&q->all, value); }
static int take_dry_run(struct web_query *q, char *value) { return take_flag(&q->dry_run, value); }

static int take_id(struct web_query *q, char *value)
{
	q->ids = alloc_resize(q->ids, q->nids + 1, sizeof(*q->ids));
	q->ids[q->nids++] = value;
	return 0;
}

static int take_limit(struct web_query *q, char *value)
{
	const char *why = NULL;
	bool digits = value[strspn(value, "0123456789")] == '\0';	/* strtonum also takes blanks and a sign */

	q->limit = strtonum(value, 1, WEB_LIMIT_MAX, &why);
	free(value);
	return why == NULL && digits ? 0 : -1;
}

static int take_since(struct web_query *q, char *value)
{
	int rc = duration_parse(value, &q->since_ms);

	free(value);
	return rc;
}

static const struct parameter {
	const char *name;
	unsigned bit;
	int (*take)(struct web_query *q, char *value);	/* owns value. -1: it cannot be this */
	const char *wanted;
} parameters[] = {
	{ "queue", WEB_QUEUE, take_queue, NULL },
	{ "list", WEB_LIST, take_list, NULL },
	{ "id", WEB_ID, take_id, NULL },
	{ "limit", WEB_LIMIT, take_limit, "a number from 1 to 1000" },
	{ "class", WEB_CLASS, take_class, NULL },
	{ "before", WEB_BEFORE, take_before, NULL },
	{ "all", WEB_ALL, take_all, "true or false" },
	{ "dry_run", WEB_DRY_RUN, take_dry_run, "true or false" },
	{ "since", WEB_SINCE, take_since, "a duration like 30m or 24h" },
};

/* ---- text ---- */

static int hex_digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

/* A new string; NULL: a percent sign without its digits, or a NUL, which no name has. */
static char *decode(const char *text, size_t len)
{
	char *out = alloc_zero(len + 1, 1), *end = out;

	for (size_t i = 0; i < len; i++) {
		int high, low;

		if (text[i] != '%') {
			*end++ = text[i] == '+' ? ' ' : text[i];
			continue;
		}
		high = i + 2 < len ? hex_digit(text[i + 1]) : -1;
		low = high != -1 ? hex_digit(text[i + 2]) : -1;
		if (low == -1 || (high == 0 && low == 0)) {
			free(out);
			return NULL;
		}
		*end++ = (char)(high << 4 | low);
		i += 2;
	}
	return out;
}

/* ---- what is wrong ---- */

static int malformed(const char *text, size_t len, char **why)
{
	char *shown = visible(text, len, 80);

	*why = alloc_format("%s: not a name, an equals sign and a value in which every %% has two hexadecimal digits and is no %%00", shown);
	free(shown);
	return -1;
}

static int unknown(const char *name, unsigned takes, char **why)
{
	const char *known[nitems(parameters)], *near;
	char *shown = visible(name, strlen(name), 80);
	size_t n = 0;

	for (size_t i = 0; i < nitems(parameters); i++)
		if ((parameters[i].bit & takes) != 0)
			known[n++] = parameters[i].name;
	near = nearest(name, known, n);
	*why = near != NULL ? alloc_format("no parameter %s here (did you mean %s?)", shown, near) : alloc_format("no parameter %s here", shown);
	free(shown);
	return -1;
}

static int missing(unsigned bits, char **why)
{
	for (size_t i = 0; i < nitems(parameters); i++)
		if ((parameters[i].bit & bits) != 0) {
			*why = alloc_format("the parameter \"%s\" is needed", parameters[i].name);
			return -1;
		}
	return 0;
}

/* ---- reading ---- */

static const struct parameter *find(const char *name, unsigned takes)
{
	for (size_t i = 0; i < nitems(parameters); i++)
		if ((parameters[i].bit & takes) != 0 && strcmp(parameters[i].name, name) == 0)
			return &parameters[i];
	return NULL;
}

static int take(struct web_query *q, const char *name, char *value, unsigned takes, char **why)
{
	const struct parameter *p = find(name, takes);

	if (p == NULL) {
		free(value);
		return unknown(name, takes, why);
	}
	if (value[0] == '\0' || ((q->given & p->bit) != 0 && p->bit != WEB_ID)) {
		*why = alloc_format("the parameter %s is %s", name, value[0] == '\0' ? "empty" : "there more than once");
		free(value);
		return -1;
	}
	q->given |= p->bit;
	if (p->take(q, value) == 0)
		return 0;
	*why = alloc_format("the parameter %s: expected %s", name, p->wanted);
	return -1;
}

static int parse_one(struct web_query *q, const char *text, size_t len, unsigned takes, char **why)
{
	const char *equals = memchr(text, '=', len);
	char *name, *value = NULL;
	int rc;

	if (equals == NULL)
		return malformed(text, len, why);
	name = decode(text, (size_t)(equals - text));
	if (name != NULL)
		value = decode(equals + 1, len - (size_t)(equals + 1 - text));
	rc = value == NULL ? malformed(text, len, why) : take(q, name, value, takes, why);
	free(name);
	return rc;
}

int web_query_parse(struct web_query *q, const char *text, unsigned takes, unsigned needs, char **why)
{
	*q = (struct web_query){ .limit = WEB_LIMIT_DEFAULT, .since_ms = -1 };
	*why = NULL;
	while (text != NULL && *text != '\0') {
		size_t len = strcspn(text, "&");

		if (parse_one(q, text, len, takes, why) == -1)
			return -1;
		text += len + (text[len] == '&');
	}
	return missing(needs & ~q->given, why);
}

void web_query_free(struct web_query *q)
{
	for (size_t i = 0; i < q->nids; i++)
		free(q->ids[i]);
	free(q->ids);
	free(q->queue);
	free(q->list);
	free(q->class);
	free(q->before);
	*q = (struct web_query){0};
}
