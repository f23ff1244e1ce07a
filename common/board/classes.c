/*
 * The table of classes that handlers named. A worker that meets a new name claims a free entry by compare and swap,
 * writes the name, and opens the entry to readers. If it dies in between, the entry stays unused. If another worker
 * names the same class at that moment, both may get an entry: readers add them up.
 */
#include <sched.h>
#include <string.h>

#include "common/board/classes.h"

/* so often a worker lets the one that writes a name go on, before it passes by the entry */
#define NAMING_TURNS 100

void classes_name_words(uint64_t words[CLASS_NAME_WORDS], const char *name)
{
	memset(words, 0, CLASS_NAME_MAX);
	memcpy(words, name, strnlen(name, CLASS_NAME_MAX));
}

void classes_name_store(_Atomic uint64_t at[CLASS_NAME_WORDS], const uint64_t words[CLASS_NAME_WORDS])
{
	for (size_t i = 0; i < CLASS_NAME_WORDS; i++)
		atomic_store(&at[i], words[i]);
}

bool classes_name_is(const _Atomic uint64_t at[CLASS_NAME_WORDS], const uint64_t words[CLASS_NAME_WORDS])
{
	for (size_t i = 0; i < CLASS_NAME_WORDS; i++)
		if (atomic_load(&at[i]) != words[i])
			return false;
	return true;
}

void classes_name_read(char out[CLASS_NAME_MAX + 1], const _Atomic uint64_t at[CLASS_NAME_WORDS])
{
	for (size_t i = 0; i < CLASS_NAME_WORDS; i++) {
		uint64_t bytes = atomic_load(&at[i]);

		memcpy(out + 8 * i, &bytes, 8);
	}
	out[CLASS_NAME_MAX] = '\0';
}

/* True: the entry is this worker's, and has the name now. */
static bool claim_entry(struct queue_class *c, const uint64_t words[CLASS_NAME_WORDS])
{
	uint32_t free = CLASS_FREE;

	if (!atomic_compare_exchange_strong(&c->state, &free, CLASS_BEING_NAMED))
		return false;
	classes_name_store(c->name, words);
	atomic_store(&c->state, CLASS_NAMED);
	return true;
}

size_t classes_index(struct queue_classes *c, const char *name)
{
	uint64_t words[CLASS_NAME_WORDS];

	classes_name_words(words, name);
	for (size_t i = 0; i < CLASS_NAMES; i++) {
		if (claim_entry(&c->named[i], words))
			return i;
		for (int turn = 0; turn < NAMING_TURNS && atomic_load(&c->named[i].state) == CLASS_BEING_NAMED; turn++)
			sched_yield();
		if (atomic_load(&c->named[i].state) == CLASS_NAMED && classes_name_is(c->named[i].name, words))
			return i;
	}
	return CLASS_NAMES;
}

void classes_count(struct queue_classes *c, const char *name, uint64_t n)
{
	size_t i = strcmp(name, CLASS_OTHER) == 0 ? CLASS_NAMES : classes_index(c, name);

	atomic_fetch_add(i < CLASS_NAMES ? &c->named[i].n : &c->other, n);
}

struct class_figure classes_figure(const struct queue_classes *c, size_t i)
{
	struct class_figure f = { .name = CLASS_OTHER };

	if (i == CLASS_NAMES) {
		f.n = atomic_load(&c->other);
	} else if (atomic_load(&c->named[i].state) == CLASS_NAMED) {
		classes_name_read(f.name, c->named[i].name);
		f.n = atomic_load(&c->named[i].n);
	}
	return f;
}

static struct class_figure *figure_named(struct class_figure *in, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(in[i].name, name) == 0)
			return &in[i];
	return NULL;
}

size_t classes_sum(const struct queue_classes *c, struct class_figure out[CLASS_FIGURES])
{
	size_t n = 0;

	for (size_t i = 0; i < CLASS_FIGURES; i++) {
		struct class_figure f = classes_figure(c, i), *same = figure_named(out, n, f.name);

		if (f.n == 0)
			continue;
		if (same != NULL)
			same->n += f.n;
		else
			out[n++] = f;
	}
	return n;
}
