/* Folds alike lines into one, word by word: a word that is equal everywhere stays, and one that differs becomes a range or a list. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "admin/doctor/fold.h"

#include "common/base/base.h"

#define NAMES_MAX 5
#define WORDS_LISTED 3
#define PUNCTUATION ",;:.)"

/* ---- words ---- */

static size_t word_len(const char *word)
{
	return strcspn(word, " ");
}

static const char *next_word(const char *word)
{
	word += word_len(word);
	return *word == ' ' ? word + 1 : word;
}

static bool same_word(const char *a, const char *b)
{
	size_t len = word_len(a);

	return len == word_len(b) && memcmp(a, b, len) == 0;
}

/* Finds name in a word. Returns NULL if it is not there, or only as a part of a longer name: "mail" is not in "mailbox". */
static const char *find_name(const char *word, const char *name)
{
	size_t len = word_len(word), n = name == NULL ? 0 : strlen(name);
	static const char of_names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

	for (size_t i = 0; n > 0 && i + n <= len; i++)
		if (memcmp(word + i, name, n) == 0 && (i == 0 || strchr(of_names, word[i - 1]) == NULL) &&
		    (i + n == len || strchr(of_names, word[i + n]) == NULL))
			return word + i;
	return NULL;
}

/* True: the words are equal apart from the name of each line that stands in them. */
static bool same_but_name(const char *a, const char *name_a, const char *b, const char *name_b)
{
	const char *in_a = find_name(a, name_a), *in_b = find_name(b, name_b);

	return in_a != NULL && in_b != NULL && in_a - a == in_b - b && memcmp(a, b, (size_t)(in_a - a)) == 0 &&
	    same_word(in_a + strlen(name_a), in_b + strlen(name_b));
}

/* Counts the words of both, and those that are equal. False: one line has more words. */
static bool compare_words(const struct fold_line *a, const struct fold_line *b, size_t *words, size_t *same)
{
	const char *in_a = a->text, *in_b = b->text;

	*words = *same = 0;
	if (in_a == NULL || in_b == NULL)
		return in_a == in_b;
	for (; *in_a != '\0' && *in_b != '\0'; in_a = next_word(in_a), in_b = next_word(in_b)) {
		++*words;
		*same += same_word(in_a, in_b) || same_but_name(in_a, a->queue, in_b, b->queue) || same_but_name(in_a, a->name, in_b, b->name);
	}
	return *in_a == '\0' && *in_b == '\0';
}

bool fold_is_alike(const struct fold_line *a, const struct fold_line *b)
{
	size_t words, same;

	return compare_words(a, b, &words, &same) && 2 * same >= words;
}

bool fold_is_same(const struct fold_line *a, const struct fold_line *b)
{
	size_t words, same;

	return compare_words(a, b, &words, &same) && same == words;
}

/* ---- one word for all ---- */

struct fold {
	const struct fold_line *lines;
	const char **at;	/* the word that is folded, in each line; owned */
	size_t n;
};

static bool append_if_same(struct buffer *out, const struct fold *f)
{
	for (size_t i = 1; i < f->n; i++)
		if (!same_word(f->at[i], f->at[0]))
			return false;
	buffer_append(out, f->at[0], word_len(f->at[0]));
	return true;
}

static const char *name_of(const struct fold_line *line, bool queue)
{
	return queue ? line->queue : line->name;
}

static bool append_if_name(struct buffer *out, const struct fold *f, bool queue)
{
	const char *first = name_of(&f->lines[0], queue), *in_first = find_name(f->at[0], first), *rest;

	if (in_first == NULL)
		return false;
	for (size_t i = 1; i < f->n; i++)
		if (!same_but_name(f->at[0], first, f->at[i], name_of(&f->lines[i], queue)))
			return false;
	rest = in_first + strlen(first);
	buffer_append(out, f->at[0], (size_t)(in_first - f->at[0]));
	buffer_format(out, "%s%.*s", queue ? "QUEUE" : "NAME", (int)word_len(rest), rest);
	return true;
}

/* "message" and "messages" */
static bool append_if_plural(struct buffer *out, const struct fold *f)
{
	const char *longest = f->at[0];
	size_t len;

	for (size_t i = 1; i < f->n; i++)
		if (word_len(f->at[i]) > word_len(longest))
			longest = f->at[i];
	len = word_len(longest);
	if (len < 2 || longest[len - 1] != 's' || isdigit((unsigned char)longest[0]))
		return false;
	for (size_t i = 0; i < f->n; i++)
		if (!same_word(f->at[i], longest) && (word_len(f->at[i]) != len - 1 || memcmp(f->at[i], longest, len - 1) != 0))
			return false;
	buffer_append(out, longest, len);
	return true;
}

/* Reads digits, and perhaps one digit behind a point: "33.3", as of percentages. tenths: of it */
static bool parse_number(const char *text, int64_t *tenths)
{
	char *end;
	int64_t whole = strtoll(text, &end, 10);

	if (end == text || whole > INT64_MAX / 10 - 1 || whole < INT64_MIN / 10 + 1)
		return false;
	*tenths = whole * 10;
	if (end[0] == '.' && isdigit((unsigned char)end[1]) && end[2] == '\0')
		*tenths += (text[0] == '-' ? -1 : 1) * (end[1] - '0');
	else if (end[0] != '\0')
		return false;
	return true;
}

/* Parses a number, or a duration, before the punctuation of a word. False: it is neither, or not of the wanted kind. */
static bool parse_figure(const char *word, bool duration, int64_t *value, size_t *len)
{
	char text[UNITS_SIZE];

	*len = word_len(word);
	while (*len > 0 && strchr(PUNCTUATION, word[*len - 1]) != NULL)
		(*len)--;
	if (*len == 0 || *len >= sizeof(text))
		return false;
	memcpy(text, word, *len);
	text[*len] = '\0';
	return duration ? units_parse_duration(text, value) == 0 : parse_number(text, value);
}

/* "3 to 57", "5m to 3h12m" */
static bool append_if_range(struct buffer *out, const struct fold *f, bool duration)
{
	const char *least = f->at[0], *most = f->at[0];
	int64_t value, low = INT64_MAX, high = INT64_MIN;
	size_t len, first;

	if (!parse_figure(f->at[0], duration, &value, &first))
		return false;
	for (size_t i = 0; i < f->n; i++) {
		if (!parse_figure(f->at[i], duration, &value, &len) || !same_word(f->at[i] + len, f->at[0] + first))
			return false;
		if (value < low) {
			low = value;
			least = f->at[i];
		}
		if (value > high) {
			high = value;
			most = f->at[i];
		}
	}
	parse_figure(least, duration, &value, &len);
	buffer_format(out, "%.*s to %.*s", (int)len, least, (int)word_len(most), most);
	return true;
}

/* ---- lists ---- */

static int by_text(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

static size_t count_distinct(const char *const *names, size_t n)
{
	const char **sorted = alloc_zero(n, sizeof(*sorted));
	size_t distinct = 0;

	memcpy(sorted, names, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_text);
	for (size_t i = 0; i < n; i++)
		distinct += i == 0 || strcmp(sorted[i], sorted[i - 1]) != 0;
	free(sorted);
	return distinct;
}

static bool is_new(const char *const *names, size_t i)
{
	for (size_t before = 0; before < i; before++)
		if (strcmp(names[before], names[i]) == 0)
			return false;
	return true;
}

/* Lists at most this many. One name more is listed, too: "and 1 more" would be no shorter. */
static void append_list(struct buffer *out, const char *const *names, size_t n, size_t most)
{
	size_t distinct = count_distinct(names, n), shown = distinct <= most + 1 ? distinct : most, done = 0;

	for (size_t i = 0; i < n && done < shown; i++)
		if (is_new(names, i)) {
			buffer_format(out, "%s%s", done == 0 ? "" : done + 1 == distinct ? " and " : ", ", names[i]);
			done++;
		}
	if (distinct > shown)
		buffer_format(out, " and %zu more", distinct - shown);
}

static void append_words(struct buffer *out, const struct fold *f)
{
	char **words = alloc_zero(f->n, sizeof(*words));

	for (size_t i = 0; i < f->n; i++)
		words[i] = alloc_copy(f->at[i], word_len(f->at[i]));
	append_list(out, (const char *const *)words, f->n, WORDS_LISTED);
	for (size_t i = 0; i < f->n; i++)
		free(words[i]);
	free(words);
}

/* ---- whole texts ---- */

static char *text_of(struct buffer *b)
{
	char *text = alloc_copy(b->data == NULL ? "" : b->data, b->len);

	buffer_free(b);
	return text;
}

char *fold_names(const char *const *names, size_t n)
{
	struct buffer out = {0};
	const char **given = alloc_zero(n + 1, sizeof(*given));
	size_t ngiven = 0;

	for (size_t i = 0; i < n; i++)
		if (names[i] != NULL)
			given[ngiven++] = names[i];
	if (ngiven > 0)
		append_list(&out, given, ngiven, NAMES_MAX);
	free(given);
	return ngiven == 0 ? NULL : text_of(&out);
}

static void append_word(struct buffer *out, const struct fold *f)
{
	if (append_if_same(out, f) || append_if_name(out, f, true) || append_if_name(out, f, false) || append_if_range(out, f, false) ||
	    append_if_range(out, f, true) || append_if_plural(out, f))
		return;
	append_words(out, f);
}

char *fold_text(const struct fold_line *lines, size_t n)
{
	struct fold f = { .lines = lines, .n = n };
	struct buffer out = {0};

	if (n == 0 || lines[0].text == NULL)
		return NULL;
	if (n == 1)
		return alloc_string(lines[0].text);
	f.at = alloc_zero(n, sizeof(*f.at));
	for (size_t i = 0; i < n; i++)
		f.at[i] = lines[i].text;
	while (*f.at[0] != '\0') {
		if (out.len > 0)
			buffer_append(&out, " ", 1);
		append_word(&out, &f);
		for (size_t i = 0; i < n; i++)
			f.at[i] = next_word(f.at[i]);
	}
	free(f.at);
	return text_of(&out);
}
