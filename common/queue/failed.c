/*
 * The classes of failed attempts in Redis. Redis is not trusted: other programs write there, too, so names that no
 * handler could have chosen count as CLASS_OTHER, and texts are made safe before they are shown.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/queue/failed.h"

#include "common/base/base.h"
#include "common/queue/scripts.h"

#define FIELD "failed:"			/* failed.lua knows it, too */
#define LATEST "failed_latest"
#define BATCH "failed_batch:"		/* of a node, beside the figures of its minute: the last batch that counted */
#define SHARE 16			/* a class among many has a line if it is at least one in so many */
#define IN_TEXT 3			/* classes in queue_failed_text() */

void queue_failed_note(struct redis *r, const struct queue_keys *k, const char *node, const struct failed_batch *batch,
    const char *latest)
{
	char *none = queue_lease_key(k, NULL), *rate = queue_rate_key(k, batch->minute),
	    *field = alloc_format(BATCH "%s", node);
	struct script_number numbers[3 + FAILED_FIGURES];
	struct script_arg args[5 + 2 * FAILED_FIGURES] =
	    { script_number(&numbers[0], QUEUE_RATE_KEPT_MS), script_number(&numbers[1], FAILED_NAMES),
		script_string(latest), script_string(field), script_number(&numbers[2], batch->id) };
	size_t n = 5;

	for (size_t i = 0; i < FAILED_FIGURES; i++) {
		const struct class_figure *class = &batch->figures[i];

		if (class->n == 0)
			continue;
		args[n++] = script_string(class->name);
		args[n++] = script_number(&numbers[3 + i], (int64_t)class->n);
	}
	queue_script(r, QUEUE_SCRIPT_failed, 3, (const char *[]){ none, k->stats, rate }, n, args);
	free(none);
	free(rate);
	free(field);
}

/* ---- adding ---- */

static struct class_figure *find_least(struct queue_failed *f)
{
	struct class_figure *least = &f->named[0];

	for (size_t i = 1; i < f->n; i++)
		if (f->named[i].n < least->n)
			least = &f->named[i];
	return least;
}

/* Any program may have written the counts. */
static uint64_t sum_of(uint64_t a, uint64_t b)
{
	uint64_t most = QUEUE_STATS_COUNT_MOST;

	return a >= most || b >= most || a + b > most ? most : a + b;
}

/* The rule of failed.lua: a class that is one too many takes the place of the smallest, unless it is smaller itself. */
static void add_class(struct queue_failed *f, const char *name, uint64_t n)
{
	struct class_figure *place;

	for (size_t i = 0; i < f->n; i++)
		if (strcmp(f->named[i].name, name) == 0) {
			f->named[i].n = sum_of(f->named[i].n, n);
			return;
		}
	place = f->n < QUEUE_FAILED_NAMES ? &f->named[f->n++] : find_least(f);
	if (place->n > n) {
		f->other = sum_of(f->other, n);
		return;
	}
	f->other = sum_of(f->other, place->n);
	*place = (struct class_figure){ .n = sum_of(n, 0) };
	snprintf(place->name, sizeof(place->name), "%s", name);
}

/* name: len bytes, which any program may have written. n: the count */
static void add_count(struct queue_failed *f, const char *name, size_t len, uint64_t n)
{
	if (strcmp(name, CLASS_OTHER) == 0 || !identifier_is(IDENTIFIER_CLASS, name, len))
		f->other = sum_of(f->other, n);
	else if (n > 0)
		add_class(f, name, n);
}

void queue_failed_add(struct queue_failed *f, const struct redis_reply *reply)
{
	for (size_t i = 0; reply->type == REDIS_ARRAY && i + 1 < reply->n; i += 2) {
		struct redis_reply field = redis_element(reply, i), value = redis_element(reply, i + 1);

		if (field.type == REDIS_STRING && strncmp(field.str, FIELD, strlen(FIELD)) == 0)
			add_count(f, field.str + strlen(FIELD), field.len - strlen(FIELD),
			    (uint64_t)queue_stats_count(&value));
	}
}

/* Any program may have written class and text; the class need not be terminated. */
static void set_latest(struct queue_failed *f, int64_t at_ms, const char *class, size_t len, const char *text)
{
	struct slot_text safe = {0};

	if (at_ms <= 0 || !identifier_is(IDENTIFIER_CLASS, class, len))
		return;
	f->at_ms = at_ms;
	snprintf(f->class, sizeof(f->class), "%.*s", (int)len, class);
	slot_text_set(&safe, 0, text, strlen(text), SLOT_TEXT_MAX);
	memcpy(f->text, slot_text_read(&safe).text, sizeof(f->text));
}

/* "MS CLASS TEXT" */
static void parse_latest(struct queue_failed *f, const struct redis_reply *value)
{
	char *class;
	int64_t at_ms = strtoll(value->str, &class, 10);
	const char *end = *class == ' ' ? strchr(class + 1, ' ') : NULL;

	if (end != NULL)
		set_latest(f, at_ms, class + 1, (size_t)(end - class - 1), end + 1);
}

void queue_failed_latest(struct queue_failed *f, const struct redis_reply *totals)
{
	for (size_t i = 0; totals->type == REDIS_ARRAY && i + 1 < totals->n; i += 2) {
		struct redis_reply field = redis_element(totals, i), value = redis_element(totals, i + 1);

		if (field.type == REDIS_STRING && strcmp(field.str, LATEST) == 0 && value.type == REDIS_STRING)
			parse_latest(f, &value);
	}
}

/* ---- showing ---- */

static int by_count(const void *a, const void *b)
{
	const struct class_figure *x = a, *y = b;

	return x->n != y->n ? (x->n < y->n ? 1 : -1) : strcmp(x->name, y->name);
}

static uint64_t total(const struct queue_failed *f)
{
	uint64_t n = f->other;

	for (size_t i = 0; i < f->n; i++)
		n += f->named[i].n;
	return n;
}

void queue_failed_sort(struct queue_failed *f)
{
	uint64_t least = total(f) / SHARE;

	qsort(f->named, f->n, sizeof(f->named[0]), by_count);
	if (f->n <= QUEUE_FAILED_SHOWN)
		return;
	while (f->n > 0 && (f->n > QUEUE_FAILED_SHOWN || f->named[f->n - 1].n < least))
		f->other += f->named[--f->n].n;
}

static void put(char out[QUEUE_FAILED_TEXT_SIZE], const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(char out[QUEUE_FAILED_TEXT_SIZE], const char *fmt, ...)
{
	size_t len = strlen(out);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(out + len, QUEUE_FAILED_TEXT_SIZE - len, fmt, ap);
	va_end(ap);
}

const char *queue_failed_text(const struct queue_failed *f, char out[QUEUE_FAILED_TEXT_SIZE])
{
	uint64_t rest = total(f);
	bool alone = f->n == 1 && f->other == 0 && strcmp(f->named[0].name, f->class) == 0;

	out[0] = '\0';
	for (size_t i = 0; i < f->n && i < IN_TEXT; i++) {
		put(out, "%s%" PRIu64 " %s", i > 0 ? ", " : "", f->named[i].n, f->named[i].name);
		rest -= f->named[i].n;
	}
	if (rest > 0)
		put(out, "%s%" PRIu64 " of other classes", out[0] == '\0' ? "" : ", ", rest);
	if (f->at_ms == 0 || out[0] == '\0')
		return out;
	if (!alone)
		put(out, "; the latest: %s", f->class);
	if (f->text[0] != '\0')
		put(out, ": %s", f->text);
	return out;
}

size_t queue_failed_figures(const struct queue_failed *f, struct class_figure out[QUEUE_FAILED_FIGURES])
{
	size_t n = 0;

	for (size_t i = 0; i < f->n && i < QUEUE_FAILED_SHOWN; i++)
		out[n++] = f->named[i];
	if (f->other == 0)
		return n;
	out[n] = (struct class_figure){ .name = CLASS_OTHER, .n = f->other };
	return n + 1;
}

void queue_failed_json(const struct queue_failed *f, json_t *object)
{
	struct class_figure figures[QUEUE_FAILED_FIGURES];
	size_t n = queue_failed_figures(f, figures);
	json_t *classes = json_object();
	char text[QUEUE_FAILED_TEXT_SIZE], at[CLOCK_RFC3339_SIZE];

	for (size_t i = 0; i < n; i++)
		json_object_set_new(classes, figures[i].name, json_integer((json_int_t)figures[i].n));
	if (n > 0)
		json_object_set(object, "classes", classes);
	json_decref(classes);
	if (f->at_ms > 0)
		json_object_set_new(object, "latest",
		    json_pack("{s:s, s:I, s:s, s:s}", "at", clock_rfc3339(f->at_ms, at),
		    "at_ms", (json_int_t)f->at_ms, "class", f->class, "error", f->text));
	if (queue_failed_text(f, text)[0] != '\0')
		json_object_set_new(object, "text", json_string(text));
}

void queue_failed_read(struct queue_failed *f, const json_t *object)
{
	const json_t *latest = json_object_get(object, "latest");
	const char *class, *error = json_string_value(json_object_get(latest, "error"));
	json_t *count;

	json_object_foreach((json_t *)(uintptr_t)json_object_get(object, "classes"), class, count)
		if (json_is_integer(count) && json_integer_value(count) > 0)
			add_count(f, class, strlen(class), (uint64_t)json_integer_value(count));
	class = json_string_value(json_object_get(latest, "class"));
	if (class != NULL && error != NULL)
		set_latest(f, json_integer_value(json_object_get(latest, "at_ms")), class, strlen(class), error);
	queue_failed_sort(f);
}
