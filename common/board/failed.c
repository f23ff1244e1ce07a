/*
 * The table of classes of failed attempts. A worker changes the word of an entry by compare and swap after it has read
 * the name: if another process renamed the entry meanwhile, the generation in the word differs, and the worker looks
 * again. So no count is added to a wrong name.
 */
#include <assert.h>
#include <string.h>

#include "common/board/failed.h"

#define CLAIMS 8		/* so often a name tries to get a place, before it counts as CLASS_OTHER */

/* The word: generation << 34 | phase << 32 | count. */
enum phase { FAILED_FREE, FAILED_BEING_NAMED, FAILED_NAMED };

static uint64_t count_of(uint64_t word)
{
	return word & UINT32_MAX;
}

static enum phase phase_of(uint64_t word)
{
	return (enum phase)(word >> 32 & 3);
}

static uint64_t generation_of(uint64_t word)
{
	return word >> 34;
}

static uint64_t failed_word(uint64_t generation, enum phase phase, uint64_t count)
{
	return generation << 34 | (uint64_t)phase << 32 | count;
}

/* True: the entry has this name, and has counted. */
static bool count_in(struct failed_class *c, const uint64_t words[CLASS_NAME_WORDS], uint64_t n)
{
	uint64_t seen = atomic_load(&c->word);

	while (phase_of(seen) == FAILED_NAMED && count_of(seen) + n <= UINT32_MAX && classes_name_is(c->name, words))
		if (atomic_compare_exchange_weak(&c->word, &seen, seen + n))
			return true;
	return false;
}

/* True: the entry, which was as seen, is this caller's now, and has the name and the count. */
static bool claim_entry(struct failed_class *c, uint64_t seen, const uint64_t words[CLASS_NAME_WORDS], uint64_t n)
{
	uint64_t generation = generation_of(seen) + 1;

	if (!atomic_compare_exchange_strong(&c->word, &seen, failed_word(generation, FAILED_BEING_NAMED, 0)))
		return false;
	classes_name_store(c->name, words);
	atomic_store(&c->word, failed_word(generation, FAILED_NAMED, n));
	return true;
}

/* The free entry, or else the one with the smallest count: of several the one that was renamed least often. NULL: all
 * count more than n. */
static struct failed_class *find_place(struct queue_failed_words *f, uint64_t n, uint64_t *seen)
{
	struct failed_class *place = NULL;

	for (size_t i = 0; i < FAILED_NAMES; i++) {
		uint64_t word = atomic_load(&f->named[i].word);

		if (phase_of(word) == FAILED_BEING_NAMED || count_of(word) > n)
			continue;
		if (place != NULL && (count_of(word) > count_of(*seen) ||
		    (count_of(word) == count_of(*seen) && generation_of(word) >= generation_of(*seen))))
			continue;
		place = &f->named[i];
		*seen = word;
	}
	return place;
}

/* False: it gets no place. */
static bool count_anew(struct queue_failed_words *f, const uint64_t words[CLASS_NAME_WORDS], uint64_t n)
{
	for (int i = 0; i < CLAIMS; i++) {
		uint64_t seen = 0;
		struct failed_class *place = find_place(f, n, &seen);

		if (place == NULL)
			return false;
		if (claim_entry(place, seen, words, n)) {
			atomic_fetch_add(&f->other, count_of(seen));
			return true;
		}
	}
	return false;
}

void failed_count(struct queue_failed_words *f, const char *name, uint64_t n)
{
	uint64_t words[CLASS_NAME_WORDS];

	classes_name_words(words, name);
	for (size_t i = 0; i < FAILED_NAMES; i++)
		if (count_in(&f->named[i], words, n))
			return;
	if (strcmp(name, CLASS_OTHER) == 0 || n > UINT32_MAX || !count_anew(f, words, n))
		atomic_fetch_add(&f->other, n);
}

bool failed_any(const struct queue_failed_words *f)
{
	for (size_t i = 0; i < FAILED_NAMES; i++)
		if (phase_of(atomic_load(&f->named[i].word)) == FAILED_NAMED)
			return true;
	return atomic_load(&f->other) > 0 || atomic_load(&f->batch) != 0;
}

static struct class_figure take_entry(struct failed_class *c)
{
	struct class_figure taken = {0};
	uint64_t seen = atomic_load(&c->word);

	while (phase_of(seen) == FAILED_NAMED) {
		classes_name_read(taken.name, c->name);
		if (atomic_compare_exchange_weak(&c->word, &seen, failed_word(generation_of(seen), FAILED_FREE, 0))) {
			taken.n = count_of(seen);
			break;
		}
	}
	return taken;
}

static struct class_figure take_figure(struct queue_failed_words *f, size_t i)
{
	if (i < FAILED_NAMES)
		return take_entry(&f->named[i]);
	return (struct class_figure){ .name = CLASS_OTHER, .n = atomic_exchange(&f->other, 0) };
}

/* A sweeper that was killed while it filled the batch may have left some of it: that stays. */
static void fill_batch(struct queue_failed_words *f)
{
	for (size_t i = 0; i < FAILED_FIGURES; i++) {
		uint64_t words[CLASS_NAME_WORDS];
		struct class_figure taken;

		if (atomic_load(&f->sent[i].n) > 0)
			continue;
		taken = take_figure(f, i);
		classes_name_words(words, taken.name);
		classes_name_store(f->sent[i].name, words);
		atomic_store(&f->sent[i].n, taken.n);
	}
}

bool failed_begin(struct queue_failed_words *f, int64_t id, int64_t minute, struct failed_batch *out)
{
	assert(id != 0 && minute != 0);
	if (!failed_any(f))
		return false;
	if (atomic_load(&f->batch) == 0) {
		atomic_store(&f->minute, 0);
		for (size_t i = 0; i < FAILED_FIGURES; i++)
			atomic_store(&f->sent[i].n, 0);
		atomic_store(&f->batch, id);
	}
	if (atomic_load(&f->minute) == 0) {
		fill_batch(f);
		atomic_store(&f->minute, minute);
	}
	out->id = atomic_load(&f->batch);
	out->minute = atomic_load(&f->minute);
	for (size_t i = 0; i < FAILED_FIGURES; i++) {
		classes_name_read(out->figures[i].name, f->sent[i].name);
		out->figures[i].n = atomic_load(&f->sent[i].n);
	}
	return true;
}

void failed_confirm(struct queue_failed_words *f, int64_t id)
{
	atomic_compare_exchange_strong(&f->batch, &id, 0);
}
