#ifndef COMMON_QUEUE_FAILED_H
#define COMMON_QUEUE_FAILED_H

#include <stddef.h>
#include <stdint.h>

#include "common/board/board.h"
#include "common/queue/stats.h"

/*
 * Why attempts failed, of all hosts: fields "failed:CLASS" of the statistics (stats.h), in total and for each minute,
 * and "failed_latest" of the totals, "MS CLASS TEXT": the latest failed attempt, by the clock of Redis. Handlers choose
 * the classes. Each hash has at most FAILED_NAMES of them, and "failed:other"; a sum over many minutes has at most
 * QUEUE_FAILED_NAMES, and shows QUEUE_FAILED_SHOWN.
 */
#define QUEUE_FAILED_NAMES 64
#define QUEUE_FAILED_SHOWN 8
struct queue_failed {
	struct class_figure named[QUEUE_FAILED_NAMES];	/* after queue_failed_sort() the most frequent first */
	size_t n;
	uint64_t other;			/* failed attempts of further classes */
	int64_t at_ms;			/* of the latest one; 0: not known */
	char class[CLASS_NAME_MAX + 1];	/* of the latest one, and its text: UTF-8 without control characters */
	char text[SLOT_TEXT_WORDS * 8];
};

/*
 * -> INTEGER, 0: the batch was counted before. node: of the supervisor that sends it; each has one batch at a time.
 * Figures that are 0 are left out; one at least is not 0. latest: "MS CLASS TEXT"; "": not known
 */
void queue_failed_note(struct redis *r, const struct queue_keys *k, const char *node, const struct failed_batch *batch,
    const char *latest);

/* Adds the classes in an answer of queue_rate() or queue_totals(). */
void queue_failed_add(struct queue_failed *f, const struct redis_reply *reply);
void queue_failed_latest(struct queue_failed *f, const struct redis_reply *totals);
/*
 * Sorts. If there are more classes than QUEUE_FAILED_SHOWN, only those stay that have a share worth a line: a handler
 * that names a new class for each message gets no line for any of them.
 */
void queue_failed_sort(struct queue_failed *f);

/* "498 ConnectionRefused: connect to mail:25: refused"; "": no attempt is known to have failed */
#define QUEUE_FAILED_TEXT_SIZE 512
const char *queue_failed_text(const struct queue_failed *f, char out[QUEUE_FAILED_TEXT_SIZE]);

/* { "classes": { CLASS: count, ... }, the most frequent first, "latest": { "at", "at_ms", "class", "error" }, "text":
 * queue_failed_text() } */
struct json_t;
void queue_failed_json(const struct queue_failed *f, struct json_t *object);
/* Reads and sorts what queue_failed_json() wrote, or any other program. object may be NULL. */
void queue_failed_read(struct queue_failed *f, const struct json_t *object);

/* The figures, the most frequent class first, and CLASS_OTHER last: returns their number. f must be sorted. */
#define QUEUE_FAILED_FIGURES (QUEUE_FAILED_SHOWN + 1)
size_t queue_failed_figures(const struct queue_failed *f, struct class_figure out[QUEUE_FAILED_FIGURES]);

#endif
