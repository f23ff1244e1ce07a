/* Which dead letters a command means. The command that runs beside Redis evaluates it; no page of the console does. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "admin/dead_letters/filter.h"

#include "admin/dead_letters/cause.h"
#include "common/base/base.h"

#define COMPARED_MAX 100	/* classes or causes, the most frequent, to find a similar one */

/* ---- parsers ---- */

static int parse_exit(struct filter *f)
{
	const char *why = NULL;

	strtonum(f->exit_code, 0, 255, &why);
	return why == NULL && f->exit_code[strspn(f->exit_code, "0123456789")] == '\0' ? 0 :
	    admin_fail(f->a, EX_USAGE, "--exit: expected an exit status from 0 to 255");
}

static int parse_moment(struct filter *f, const char *option, const char *text, int64_t *ms)
{
	int64_t now_ms;

	if (admin_server_time(f->a, &now_ms) == -1)
		return -1;
	return moment_parse(text, now_ms, ms) == 0 ? 0
	    : admin_fail(f->a, EX_USAGE, "--%s: expected " MOMENT_WANTED, option);
}

static int parse_since(struct filter *f)
{
	int64_t ms;

	if (parse_moment(f, "since", f->since_given, &ms) == -1)
		return -1;
	snprintf(f->since, sizeof(f->since), "%" PRId64 "-0", ms);
	return 0;
}

static int parse_until(struct filter *f)
{
	int64_t ms;

	if (parse_moment(f, "until", f->until_given, &ms) == -1)
		return -1;
	snprintf(f->until, sizeof(f->until), "%" PRId64 "-%" PRIu64, ms, UINT64_MAX);
	return 0;
}

static int parse_not_empty(struct filter *f, const char *option, const char *text)
{
	return text[0] != '\0' ? 0 : admin_fail(f->a, EX_USAGE, "--%s: expected a text", option);
}

static int parse_text(struct filter *f)
{
	return parse_not_empty(f, "text", f->text);
}

static int parse_root(struct filter *f)
{
	return parse_not_empty(f, "root", f->root);
}

static int parse_cause(struct filter *f)
{
	char *cause = alloc_string(f->cause);

	cause_squeeze(cause);
	f->cause = cause;
	return parse_not_empty(f, "cause", f->cause);
}

/* ---- matchers ---- */

static bool class_matches(const struct filter *f, const struct dead_letter *d)
{
	return dead_letter_is(d, "error_class", f->class);
}

static bool cause_matches(const struct filter *f, const struct dead_letter *d)
{
	char cause[CAUSE_SIZE], shape[CAUSE_SIZE];

	if (strcmp(cause_of(d, cause), f->cause) == 0)
		return true;
	cause_shape(cause, shape);
	return strcmp(shape, f->cause) == 0;
}

static bool field_contains(const struct dead_letter *d, const char *field, const char *text)
{
	struct queue_bytes b = dead_letter_value(d, field);

	return contains_text(b.data, b.len, text);
}

static bool text_matches(const struct filter *f, const struct dead_letter *d)
{
	return field_contains(d, "error_message", f->text) || field_contains(d, "stderr", f->text) ||
	    field_contains(d, "id", f->text);
}

static bool exit_matches(const struct filter *f, const struct dead_letter *d)
{
	struct queue_bytes code = dead_letter_value(d, "exit_code");

	return code.len > 0 && strtol(code.data, NULL, 10) == strtol(f->exit_code, NULL, 10);
}

/* An incarnation, or its beginning up to a dot: the node. */
static bool worker_matches(const struct filter *f, const struct dead_letter *d)
{
	struct queue_bytes worker = dead_letter_value(d, "worker");
	size_t len = strlen(f->worker);

	return worker.len >= len && memcmp(worker.data, f->worker, len) == 0 &&
	    (worker.len == len || ((const char *)worker.data)[len] == '.');
}

/* The root itself has no field of that name: no handler emitted it. */
static bool root_matches(const struct filter *f, const struct dead_letter *d)
{
	return dead_letter_value(d, "root").len > 0 ? dead_letter_is(d, "root", f->root) :
	    dead_letter_is(d, "id", f->root);
}

/* ---- the table ---- */

#define GIVEN(member) offsetof(struct filter, member)
#define OPTION(member) offsetof(struct options, member)

static const struct filter_field {
	uint64_t option;
	size_t from, to;		/* the text in struct options, and in struct filter */
	const char *reads[CAUSE_NFIELDS];		/* fields of the record */
	int (*parse)(struct filter *f);	/* NULL: any text is valid */
	bool (*matches)(const struct filter *f, const struct dead_letter *d);	/* NULL: the ids decide */
} filter_fields[] = {
	{ OPTION_CLASS, OPTION(class), GIVEN(class), { "error_class" }, NULL, class_matches },
	{ OPTION_CAUSE, OPTION(cause), GIVEN(cause), { CAUSE_FIELDS }, parse_cause, cause_matches },
	{ OPTION_TEXT, OPTION(text), GIVEN(text), { "error_message", "stderr", "id" }, parse_text, text_matches },
	{ OPTION_EXIT, OPTION(exit_code), GIVEN(exit_code), { "exit_code" }, parse_exit, exit_matches },
	{ OPTION_WORKER, OPTION(worker), GIVEN(worker), { "worker" }, NULL, worker_matches },
	{ OPTION_ROOT, OPTION(root), GIVEN(root), { "root", "id" }, parse_root, root_matches },
	{ OPTION_SINCE, OPTION(since), GIVEN(since_given), { NULL }, parse_since, NULL },
	{ OPTION_UNTIL, OPTION(until), GIVEN(until_given), { NULL }, parse_until, NULL },
};

static const char *given(const struct filter *f, const struct filter_field *field)
{
	const char *text;

	memcpy(&text, (const char *)f + field->to, sizeof(text));
	return text;
}

int filter_read(struct admin *a, struct filter *f)
{
	int rc = 0;

	*f = (struct filter){ .a = a, .since = "-", .until = "+" };
	for (size_t i = 0; i < nitems(filter_fields) && rc == 0; i++) {
		const struct filter_field *field = &filter_fields[i];
		const char *text;

		memcpy(&text, (const char *)&a->options + field->from, sizeof(text));
		memcpy((char *)f + field->to, &text, sizeof(text));
		if (text != NULL && field->parse != NULL)
			rc = field->parse(f);
	}
	if (rc == 0 && f->since[0] != '-' && f->until[0] != '+' && queue_record_id_compare(f->since, f->until) > 0)
		rc = admin_fail(a, EX_USAGE, "--since is later than --until");
	return rc;
}

void filter_free(struct filter *f)
{
	groups_free(&f->others);
	free((void *)(uintptr_t)f->cause);
}

bool filter_is_empty(const struct filter *f)
{
	for (size_t i = 0; i < nitems(filter_fields); i++)
		if (given(f, &filter_fields[i]) != NULL)
			return false;
	return true;
}

bool filter_excludes(const struct filter *f, const struct options *other)
{
	char one[CAUSE_SIZE], another[CAUSE_SIZE];

	if (f->class != NULL && other->class != NULL && strcmp(f->class, other->class) != 0)
		return true;
	if (f->exit_code != NULL && other->exit_code != NULL &&
	    strtol(f->exit_code, NULL, 10) != strtol(other->exit_code, NULL, 10))
		return true;
	if (f->cause == NULL || other->cause == NULL)
		return false;
	cause_shape(f->cause, one);
	cause_shape(other->cause, another);
	return strcmp(one, another) != 0;
}

/* Remembers what the record has where the filter has a class or a cause, to suggest one of them. */
static void note_other(struct filter *f, const struct dead_letter *d)
{
	char cause[CAUSE_SIZE];
	const char *other = f->class != NULL ? dead_letter_value(d, "error_class").data : f->cause != NULL
	    ? cause_of(d, cause) : NULL;

	if (other != NULL && f->matched == 0)
		groups_count(&f->others, other, 0);
	f->with_text += f->cause != NULL && field_contains(d, "error_message", f->cause);
}

bool filter_matches(struct filter *f, const struct dead_letter *d)
{
	for (size_t i = 0; i < nitems(filter_fields); i++) {
		if (given(f, &filter_fields[i]) == NULL || filter_fields[i].matches == NULL ||
		    filter_fields[i].matches(f, d))
			continue;
		note_other(f, d);
		return false;
	}
	f->matched++;
	return true;
}

size_t filter_add_fields(const struct filter *f, const char *fields[QUEUE_LOOK_FIELDS], size_t n)
{
	for (size_t i = 0; i < nitems(filter_fields); i++)
		for (size_t k = 0; k < nitems(filter_fields[i].reads) && given(f, &filter_fields[i]) != NULL &&
		    filter_fields[i].reads[k] != NULL; k++) {
			bool there = false;

			for (size_t j = 0; j < n && !there; j++)
				there = strcmp(fields[j], filter_fields[i].reads[k]) == 0;
			if (!there && n < QUEUE_LOOK_FIELDS)
				fields[n++] = filter_fields[i].reads[k];
		}
	return n;
}

/* The length of a text without the dots of a table that cut it. */
static size_t length_uncut(const char *text)
{
	static const char *const dots[] = { "...", "\u2026" };
	size_t len = strlen(text);

	for (size_t i = 0; i < nitems(dots); i++) {
		size_t n = strlen(dots[i]);

		if (len > n && strcmp(text + len - n, dots[i]) == 0) {
			for (len -= n; len > 0 && text[len - 1] == ' ';)
				len--;
			return len;
		}
	}
	return len;
}

/* The others are sorted. *most: the most frequent one that begins with this text; NULL: none does. Returns how many
 * do. */
static size_t count_longer(const struct filter *f, const char *wanted, const struct group **most)
{
	size_t len = length_uncut(wanted), n = 0;

	*most = NULL;
	for (size_t i = 0; len > 0 && i < f->others.n; i++)
		if (strncmp(f->others.all[i]->key, wanted, len) == 0 && n++ == 0)
			*most = f->others.all[i];
	return n;
}

/* Suggests a class or a cause: a new string, "" if none is similar. */
static char *suggestion(const struct filter *f, const char *what, const char *wanted)
{
	const char *keys[COMPARED_MAX], *near;
	const struct group *most;
	size_t n = count_longer(f, wanted, &most);
	struct buffer text = {0};

	if (n > 1)
		buffer_format(&text, "; %zu %s%s begin with it, the most frequent: ", n, what,
		    strcmp(what, "class") == 0 ? "es" : "s");
	else if (n == 1)
		buffer_format(&text, "; one %s begins with it: ", what);
	else if (f->with_text > 0)
		buffer_format(&text, "; %zu %s it in the error: --text ", f->with_text,
		    f->with_text == 1 ? "has" : "have");
	if (text.len > 0) {
		options_append_quoted(&text, n > 0 ? most->key : wanted);
		buffer_append(&text, "", 1);
		return text.data;
	}
	for (n = 0; n < f->others.n && n < nitems(keys); n++)
		keys[n] = f->others.all[n]->key;
	near = nearest(wanted, keys, n);
	return near == NULL ? alloc_string("") : alloc_format(" (did you mean %s?)", near);
}

void filter_suggest(struct filter *f)
{
	const char *what = f->class != NULL ? "class" : "cause", *wanted = f->class != NULL ? f->class : f->cause;
	char *meant;

	if (f->matched > 0 || wanted == NULL || f->others.n == 0)
		return;
	for (size_t i = 0; i < f->others.n; i++)
		if (strcmp(f->others.all[i]->key, wanted) == 0)
			return;		/* other options left nothing */
	groups_sort(&f->others);
	meant = suggestion(f, what, wanted);
	admin_note("no dead letter of %s%s has the %s %s%s", f->a->keys.name,
	    f->since[0] == '-' && f->until[0] == '+' ? "" : " in this time", what, wanted, meant);
	free(meant);
}

/* ---- as text ---- */

char *filter_text(const struct filter *f)
{
	struct buffer text = {0};

	for (size_t i = 0; i < nitems(filter_fields); i++) {
		if (given(f, &filter_fields[i]) == NULL)
			continue;
		buffer_format(&text, " %s=", option_of_bit(filter_fields[i].option)->name);
		options_append_quoted(&text, given(f, &filter_fields[i]));
	}
	buffer_append(&text, "", 1);
	return text.data;
}

/* ", since 2026-11-23T02:00:00.000Z"; nothing if it is no id */
static void append_time(struct buffer *text, const char *option, const char *id)
{
	char stamp[CLOCK_RFC3339_SIZE];
	uint64_t ms, serial;

	if (queue_record_id_parse(id, &ms, &serial) == 0)
		buffer_format(text, ", %s %s", option, clock_rfc3339(clock_ms_of((double)ms), stamp));
}

char *filter_words(const struct filter *f, const char *since, const char *until)
{
	struct buffer text = {0};

	for (size_t i = 0; i < nitems(filter_fields); i++)
		if (given(f, &filter_fields[i]) != NULL && filter_fields[i].matches != NULL)
			buffer_format(&text, ", %s %s", option_of_bit(filter_fields[i].option)->name,
			    given(f, &filter_fields[i]));
	append_time(&text, "since", since);
	append_time(&text, "until", until);
	buffer_append(&text, "", 1);
	return text.data;
}

bool filter_is_relative(const struct filter *f)
{
	return (f->since_given != NULL && moment_is_relative(f->since_given)) ||
	    (f->until_given != NULL && moment_is_relative(f->until_given));
}
