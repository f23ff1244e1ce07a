/* Parses the parameters of a request strictly, so that a misspelt one is an error and not a larger purge. */
#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>
#include <event2/http.h>

#include "admin/web/query.h"

#include "admin/cli/cli.h"
#include "common/base/base.h"

static const struct parameter {
	const char *name;
	unsigned bit;
	enum { TEXT, FLAG, ID, LIMIT } kind;
	size_t field;			/* of TEXT and FLAG: its offset in struct web_query */
	const char *wanted;		/* NULL: any text */
} parameters[] = {
	{ "queue", WEB_QUEUE, TEXT, offsetof(struct web_query, queue), NULL },
	{ "list", WEB_LIST, TEXT, offsetof(struct web_query, list), NULL },
	{ "id", WEB_ID, ID, 0, NULL },
	{ "limit", WEB_LIMIT, LIMIT, 0, "a number from 1 to 1000" },
	{ "class", WEB_CLASS, TEXT, offsetof(struct web_query, class), NULL },
	{ "before", WEB_BEFORE, TEXT, offsetof(struct web_query, before), NULL },
	{ "all", WEB_ALL, FLAG, offsetof(struct web_query, all), "true or false" },
	{ "dry_run", WEB_DRY_RUN, FLAG, offsetof(struct web_query, dry_run), "true or false" },
	{ "since", WEB_SINCE, TEXT, offsetof(struct web_query, since), NULL },
};

/* ---- errors ---- */

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

static int check_needed(unsigned missing, char **why)
{
	for (size_t i = 0; i < nitems(parameters); i++)
		if ((parameters[i].bit & missing) != 0) {
			*why = alloc_format("the parameter \"%s\" is required", parameters[i].name);
			return -1;
		}
	return 0;
}

/* evhttp passes a percent sign without two digits through, and ends a value at %00. */
static bool has_bad_escape(const char *text)
{
	while ((text = strchr(text, '%')) != NULL) {
		if (!isxdigit((unsigned char)text[1]) || !isxdigit((unsigned char)text[2]) || strncmp(text, "%00", 3) == 0)
			return true;
		text += 3;
	}
	return false;
}

/* ---- reading ---- */

/* -1: the value has another form. */
static int take_value(struct web_query *q, const struct parameter *p, char *value)
{
	void *field = (char *)q + p->field;
	const char *why = NULL;
	bool is_true;

	switch (p->kind) {
	case TEXT:
		*(char **)field = value;
		break;
	case FLAG:
		is_true = strcmp(value, "true") == 0;
		*(bool *)field = is_true;
		return is_true || strcmp(value, "false") == 0 ? 0 : -1;
	case ID:
		q->ids = alloc_resize(q->ids, q->nids + 1, sizeof(*q->ids));
		q->ids[q->nids++] = value;
		break;
	case LIMIT:
		q->limit = strtonum(value, 1, WEB_LIMIT_MAX, &why);
		return why == NULL && value[strspn(value, "0123456789")] == '\0' ? 0 : -1;	/* strtonum also accepts blanks and a sign */
	}
	return 0;
}

static int take_parameter(struct web_query *q, const char *name, char *value, unsigned takes, char **why)
{
	const struct parameter *p = parameters;

	while (p < parameters + nitems(parameters) && ((p->bit & takes) == 0 || strcmp(p->name, name) != 0))
		p++;
	if (p == parameters + nitems(parameters))
		return unknown(name, takes, why);
	if (value[0] == '\0')
		*why = alloc_format("the parameter %s is empty", name);
	else if ((q->given & p->bit) != 0 && p->kind != ID)
		*why = alloc_format("the parameter %s occurs more than once", name);
	else if (take_value(q, p, value) == -1)
		*why = alloc_format("the parameter %s: expected %s", name, p->wanted);
	q->given |= p->bit;
	return *why == NULL ? 0 : -1;
}

int web_query_parse(struct web_query *q, const char *text, unsigned takes, unsigned needs, char **why)
{
	struct evkeyval *pair;
	char *shown;

	*q = (struct web_query){ .limit = WEB_LIMIT_DEFAULT };
	TAILQ_INIT(&q->pairs);
	*why = NULL;
	if (text != NULL && (has_bad_escape(text) || evhttp_parse_query_str(text, &q->pairs) == -1)) {
		shown = visible(text, strlen(text), 80);
		*why = alloc_format("%s: expected NAME=VALUE&..., where two hexadecimal digits other than 00 follow each %%", shown);
		free(shown);
		return -1;
	}
	TAILQ_FOREACH(pair, &q->pairs, next)
		if (take_parameter(q, pair->key, pair->value, takes, why) == -1)
			return -1;
	return check_needed(needs & ~q->given, why);
}

void web_query_free(struct web_query *q)
{
	if (q->pairs.tqh_last != NULL)		/* zeroed: nothing was parsed */
		evhttp_clear_headers(&q->pairs);
	free(q->ids);
	*q = (struct web_query){0};
}
