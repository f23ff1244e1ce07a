/* Parses the parameters of a request strictly, so that a misspelt one is an error and not a larger purge. */
#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>
#include <event2/http.h>

#include "admin/web/query.h"

#include "admin/cli/cli.h"
#include "common/base/base.h"

#define CHOICES_MAX 4

static const struct parameter {
	const char *name;
	unsigned bit;
	enum { TEXT, FLAG, ID, LIMIT } kind;
	size_t field;			/* of TEXT and FLAG: its offset in struct web_query */
	const char *wanted;		/* of FLAG and LIMIT: what is valid, in words */
	const char *choices[CHOICES_MAX];	/* of TEXT: the only values; none: any text */
} parameters[] = {
	{ "queue", WEB_QUEUE, TEXT, offsetof(struct web_query, queue), NULL, {0} },
	{ "list", WEB_LIST, TEXT, offsetof(struct web_query, list), NULL,
	    { "ingress", "transit", "escape", "delayed" } },
	{ "list", WEB_LIST_BACK, TEXT, offsetof(struct web_query, list), NULL, { "transit", "escape", "delayed" } },
	{ "list", WEB_LIST_SINGLE, TEXT, offsetof(struct web_query, list), NULL, { "ingress", "delayed" } },
	{ "id", WEB_ID, ID, 0, NULL, {0} },
	{ "limit", WEB_LIMIT, LIMIT, 0, "a number from 1 to 1000", {0} },
	{ "before", WEB_BEFORE, TEXT, offsetof(struct web_query, before), NULL, {0} },
	{ "all", WEB_ALL, FLAG, offsetof(struct web_query, all), "true or false", {0} },
	{ "dry_run", WEB_DRY_RUN, FLAG, offsetof(struct web_query, dry_run), "true or false", {0} },
	{ "schedule", WEB_SCHEDULE, TEXT, offsetof(struct web_query, schedule), NULL, {0} },
	{ "force", WEB_FORCE, FLAG, offsetof(struct web_query, force), "true or false", {0} },
	{ "since", WEB_SINCE, TEXT, offsetof(struct web_query, since), NULL, {0} },
};

/* Options of the command line that are parameters with the same name. admin/dead_letters/filter.c has what those of a
 * filter mean. */
static const struct {
	unsigned bit;
	uint64_t options;
} option_groups[] = {
	{ WEB_FILTER, OPTION_FILTER },
	{ WEB_PACE, OPTION_PACE | OPTION_ANEW },
	{ WEB_ANEW, OPTION_ANEW },
	{ WEB_STOP, OPTION_STOP },
	{ WEB_CANCEL, OPTION_AGAIN | OPTION_WORKER },
	{ WEB_TEXT, OPTION_TEXT | OPTION_SEARCH },
};

static bool is_taken(const struct option_spec *s, unsigned takes)
{
	for (size_t i = 0; i < nitems(option_groups); i++)
		if ((option_groups[i].bit & takes) != 0 && (option_groups[i].options & s->bit) != 0)
			return true;
	return false;
}

/* "max-failures" is max_failures here. */
static bool has_name(const struct option_spec *s, const char *name)
{
	const char *own = s->name;

	while (*own != '\0' && (*own == *name || (*own == '-' && *name == '_'))) {
		own++;
		name++;
	}
	return *own == *name;
}

/* NULL: there is no such option, or the address does not take it. */
static const struct option_spec *option_named(const char *name, unsigned takes)
{
	for (size_t i = 0; i < option_specs_count; i++)
		if (is_taken(&option_specs[i], takes) && has_name(&option_specs[i], name))
			return &option_specs[i];
	return NULL;
}

/* ---- errors ---- */

#define KNOWN_MAX (nitems(parameters) + 32)

/* Options as parameters: "max_failures", not "max-failures". Changes text, and returns it. */
static char *as_parameters(char *text)
{
	for (char *c = text; *c != '\0'; c++)
		if (*c == '-')
			*c = '_';
	return text;
}

/* "queue, list or id": a new string */
static char *enumerated(const char *const *words, size_t n)
{
	struct buffer text = {0};

	for (size_t i = 0; i < n; i++)
		buffer_format(&text, "%s%s", i == 0 ? "" : i + 1 == n ? " or " : ", ", words[i]);
	buffer_append(&text, "", 1);
	return as_parameters(text.data);
}

static int unknown_parameter(const char *name, unsigned takes, char **why)
{
	const char *known[KNOWN_MAX], *near;
	char *shown = visible(name, strlen(name), 80), *expected;
	size_t n = 0;

	for (size_t i = 0; i < nitems(parameters); i++)
		if ((parameters[i].bit & takes) != 0)
			known[n++] = parameters[i].name;
	for (size_t i = 0; i < option_specs_count && n < KNOWN_MAX; i++)
		if (is_taken(&option_specs[i], takes))
			known[n++] = option_specs[i].name;
	near = nearest(name, known, n);
	expected = near != NULL ? as_parameters(alloc_string(near)) : enumerated(known, n);
	*why = near != NULL ? alloc_format("no parameter %s here (did you mean %s?)", shown, expected)
	    : alloc_format("no parameter %s here: expected %s", shown, n > 0 ? expected : "none");
	free(expected);
	free(shown);
	return -1;
}

static int wrong_value(const struct parameter *p, const char *value, char **why)
{
	size_t n = 0;
	char *shown = visible(value, strlen(value), 80), *wanted;
	const char *near;

	while (n < CHOICES_MAX && p->choices[n] != NULL)
		n++;
	near = nearest(value, p->choices, n);
	wanted = n > 0 ? enumerated(p->choices, n)
	    : alloc_string(p->kind == ID ? identifier_form(IDENTIFIER_ID) : p->wanted == NULL ? "" : p->wanted);
	*why = p->kind == ID && identifier_is(IDENTIFIER_ID, value, strlen(value))
	    ? alloc_format("the parameter %s has the value %s twice", p->name, shown)
	    : near == NULL ? alloc_format("the parameter %s: expected %s, not %s", p->name, wanted, shown)
	    : alloc_format("the parameter %s: expected %s, not %s (did you mean %s?)", p->name, wanted, shown, near);
	free(wanted);
	free(shown);
	return -1;
}

/* Of the groups of options only those of one option are ever needed. */
static int check_needed(unsigned missing, char **why)
{
	for (size_t i = 0; i < nitems(parameters); i++)
		if ((parameters[i].bit & missing) != 0) {
			*why = alloc_format("the parameter \"%s\" is required", parameters[i].name);
			return -1;
		}
	for (size_t i = 0; i < nitems(option_groups); i++)
		if ((option_groups[i].bit & missing) != 0) {
			*why = alloc_format("the parameter \"%s\" is required",
			    option_of_bit(option_groups[i].options)->name);
			return -1;
		}
	return 0;
}

/* evhttp passes a percent sign without two digits through, and ends a value at %00. */
static bool has_bad_escape(const char *text)
{
	while ((text = strchr(text, '%')) != NULL) {
		if (!isxdigit((unsigned char)text[1]) || !isxdigit((unsigned char)text[2]) ||
		    strncmp(text, "%00", 3) == 0)
			return true;
		text += 3;
	}
	return false;
}

/* ---- reading ---- */

static bool is_choice(const struct parameter *p, const char *value)
{
	for (size_t i = 0; i < CHOICES_MAX && p->choices[i] != NULL; i++)
		if (strcmp(p->choices[i], value) == 0)
			return true;
	return p->choices[0] == NULL;
}

/* -1: the value has another form. */
static int take_value(struct web_query *q, const struct parameter *p, char *value)
{
	void *field = (char *)q + p->field;
	const char *why = NULL;
	bool is_true;

	switch (p->kind) {
	case TEXT:
		*(char **)field = value;
		return is_choice(p, value) ? 0 : -1;
	case FLAG:
		is_true = strcmp(value, "true") == 0;
		*(bool *)field = is_true;
		return is_true || strcmp(value, "false") == 0 ? 0 : -1;
	case ID:
		if (!identifier_is(IDENTIFIER_ID, value, strlen(value)))
			return -1;
		for (size_t i = 0; i < q->nids; i++)
			/* the second one would mean another message with this id */
			if (strcmp(q->ids[i], value) == 0)
				return -1;
		q->ids = alloc_resize(q->ids, q->nids + 1, sizeof(*q->ids));
		q->ids[q->nids++] = value;
		break;
	case LIMIT:
		q->limit = strtonum(value, 1, WEB_LIMIT_MAX, &why);
		/* strtonum also accepts blanks and a sign */
		return why == NULL && value[strspn(value, "0123456789")] == '\0' ? 0 : -1;
	}
	return 0;
}

/* -1: the value is no number in the range of the option. */
static int store_option(struct options *o, const struct option_spec *s, const char *value)
{
	char *field = (char *)o + s->offset;
	const char *why = NULL;
	int64_t number;

	switch (s->kind) {
	case OPTION_IS_FLAG:
		*(bool *)field = strcmp(value, "true") == 0;
		return *(bool *)field || strcmp(value, "false") == 0 ? 0 : -1;
	case OPTION_IS_STRING:
		memcpy(field, &value, sizeof(value));
		return 0;
	default:
		number = strtonum(value, s->min, s->max, &why);
		memcpy(field, &number, sizeof(number));
		return why == NULL && value[strspn(value, "0123456789")] == '\0' ? 0 : -1;
	}
}

static int take_option(struct web_query *q, const struct option_spec *s, const char *name, const char *value,
    char **why)
{
	if (value[0] == '\0')
		*why = alloc_format("the parameter %s is empty", name);
	else if ((q->options.given & s->bit) != 0)
		*why = alloc_format("the parameter %s occurs more than once", name);
	else if (store_option(&q->options, s, value) == -1)
		*why = s->kind == OPTION_IS_FLAG ? alloc_format("the parameter %s: expected true or false", name)
		    : alloc_format("the parameter %s: expected a number from %" PRId64 " to %" PRId64, name, s->min,
		    s->max);
	q->options.given |= s->bit;
	for (size_t i = 0; i < nitems(option_groups); i++)
		if (option_groups[i].options == s->bit)
			q->given |= option_groups[i].bit;
	return *why == NULL ? 0 : -1;
}

static int take_parameter(struct web_query *q, const char *name, char *value, unsigned takes, char **why)
{
	const struct option_spec *option = option_named(name, takes);
	const struct parameter *p = parameters;

	if (option != NULL)
		return take_option(q, option, name, value, why);
	while (p < parameters + nitems(parameters) && ((p->bit & takes) == 0 || strcmp(p->name, name) != 0))
		p++;
	if (p == parameters + nitems(parameters))
		return unknown_parameter(name, takes, why);
	if (value[0] == '\0')
		*why = alloc_format("the parameter %s is empty", name);
	else if ((q->given & p->bit) != 0 && p->kind != ID)
		*why = alloc_format("the parameter %s occurs more than once", name);
	else if (take_value(q, p, value) == -1)
		wrong_value(p, value, why);
	q->given |= p->bit;
	return *why == NULL ? 0 : -1;
}

int web_query_parse(struct web_query *q, const char *text, unsigned takes, unsigned needs, char **why)
{
	struct evkeyval *pair;
	char *shown;

	*q = (struct web_query){ .limit = WEB_LIMIT_DEFAULT, .options = options_none() };
	TAILQ_INIT(&q->pairs);
	*why = NULL;
	if (text != NULL && (has_bad_escape(text) || evhttp_parse_query_str(text, &q->pairs) == -1)) {
		shown = visible(text, strlen(text), 80);
		*why = alloc_format(
		    "%s: expected NAME=VALUE&..., where two hexadecimal digits other than 00 follow each %%", shown);
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
