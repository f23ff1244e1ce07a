/* Folds alike lines into one: what is equal in all stays, and names, figures, plurals and single words may differ. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "admin/doctor/fold.h"

#include "common/base/base.h"

#define NAMES_MAX 5
#define WORDS_LISTED 3
#define MARKS ",:;"

static char *text_of(struct buffer *b)
{
	char *text = alloc_copy(b->data == NULL ? "" : b->data, b->len);

	buffer_free(b);
	return text;
}

/* ---- lists ---- */

/* Equal names in the order in which they stand. */
static int compare_names(const void *a, const void *b)
{
	const char *const *left = *(const char *const *const *)a, *const *right = *(const char *const *const *)b;
	int order = strcmp(*left, *right);

	return order != 0 ? order : left < right ? -1 : left > right;
}

/* Sets in out which names are the first of their kind. Returns how many are. A bad night has 10,000 findings. */
static size_t find_new(const char *const *names, size_t n, bool *out)
{
	const char *const **sorted = alloc_zero(n, sizeof(*sorted));
	size_t known = 0, distinct = 0;

	for (size_t i = 0; i < n; i++)
		if (names[i] != NULL)
			sorted[known++] = &names[i];
	qsort(sorted, known, sizeof(*sorted), compare_names);
	for (size_t i = 0; i < known; i++)
		if (i == 0 || strcmp(*sorted[i - 1], *sorted[i]) != 0) {
			out[sorted[i] - names] = true;
			distinct++;
		}
	free(sorted);
	return distinct;
}

/* Lists at most this many. One name more is listed, too: "and 1 more" would be no shorter. Returns how many differ. */
static size_t append_list(struct buffer *out, const char *const *names, size_t n, size_t most)
{
	bool *new = alloc_zero(n, sizeof(*new));
	size_t distinct = find_new(names, n, new), shown = distinct <= most + 1 ? distinct : most, done = 0;

	for (size_t i = 0; i < n && done < shown; i++)
		if (new[i]) {
			buffer_format(out, "%s%s", done == 0 ? "" : done + 1 == distinct ? " and " : ", ", names[i]);
			done++;
		}
	if (distinct > shown)
		buffer_format(out, " and %zu more", distinct - shown);
	free(new);
	return distinct;
}

char *fold_names(const char *const *names, size_t n)
{
	struct buffer out = {0};

	return append_list(&out, names, n, NAMES_MAX) == 0 ? NULL : text_of(&out);
}

/* ---- texts ---- */

struct fold {
	const struct fold_line *lines;
	const char **at;	/* where each text goes on; owned */
	size_t n;
};

static bool is_of_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* Goes over the name of each line; false: a line has another word here, as "mailbox" for "mail", or all have the same
 * name. */
static bool take_names(struct fold *f, struct buffer *out, bool queue)
{
	bool differ = false;

	for (size_t i = 0; i < f->n; i++) {
		const char *name = queue ? f->lines[i].queue : f->lines[i].name;
		size_t len = name == NULL ? 0 : strlen(name);

		if (len == 0 || strncmp(f->at[i], name, len) != 0 || is_of_name(f->at[i][len]))
			return false;
		differ = differ || strncmp(f->at[i], f->at[0], len + 1) != 0;
	}
	if (!differ)
		return false;
	for (size_t i = 0; i < f->n; i++)
		f->at[i] += strlen(queue ? f->lines[i].queue : f->lines[i].name);
	buffer_format(out, "%s", queue ? "QUEUE" : "NAME");
	return true;
}

/* A number, perhaps with one digit behind a point, or a duration; value: in tenths, or in ms. Returns its length; 0: it
 * is no such figure. */
static size_t parse_figure(const char *text, bool duration, int64_t *value)
{
	size_t len = strspn(text, "0123456789.dhms");
	char figure[UNITS_SIZE], *end;

	while (len > 0 && text[len - 1] == '.')
		len--;
	if (len == 0 || len >= sizeof(figure) || is_of_name(text[len]))
		return 0;
	memcpy(figure, text, len);
	figure[len] = '\0';
	if (duration)
		return units_parse_duration(figure, value) == 0 ? len : 0;
	*value = strtoll(figure, &end, 10);
	if (*value > INT64_MAX / 10 - 1)
		return 0;
	*value *= 10;
	if (end[0] == '.' && isdigit((unsigned char)end[1])) {
		*value += end[1] - '0';
		end += 2;
	}
	return *end == '\0' ? len : 0;
}

/* "3 to 57", "5m to 3h12m" */
static bool take_figures(struct fold *f, struct buffer *out, bool duration)
{
	const char *least = f->at[0], *most = f->at[0];
	int64_t value, low = INT64_MAX, high = INT64_MIN;

	if (least != f->lines[0].text && least[-1] == '.')	/* of a version */
		return false;
	for (size_t i = 0; i < f->n; i++) {
		if (parse_figure(f->at[i], duration, &value) == 0)
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
	buffer_append(out, least, parse_figure(least, duration, &value));
	if (low < high)
		buffer_format(out, " to %.*s", (int)parse_figure(most, duration, &value), most);
	for (size_t i = 0; i < f->n; i++)
		f->at[i] += parse_figure(f->at[i], duration, &value);
	return true;
}

/* The "s" of "messages", where others have one "message". */
static bool take_plurals(struct fold *f, struct buffer *out)
{
	bool any = false;

	for (size_t i = 0; i < f->n; i++) {
		if (f->at[i] == f->lines[i].text || !isalpha((unsigned char)f->at[i][-1]) ||
		    is_of_name(f->at[i][f->at[i][0] == 's']))
			return false;
		any = any || f->at[i][0] == 's';
	}
	for (size_t i = 0; i < f->n; i++)
		f->at[i] += f->at[i][0] == 's';
	buffer_append(out, "s", any);
	return any;
}

static bool take_same(struct fold *f, struct buffer *out)
{
	for (size_t i = 1; i < f->n; i++)
		if (f->at[i][0] != f->at[0][0])
			return false;
	buffer_append(out, f->at[0], 1);
	for (size_t i = 0; i < f->n; i++)
		f->at[i]++;
	return true;
}

/* Goes over one word of each line, with the blank behind it. */
static bool take_alike(struct fold *f, struct buffer *out, bool figures)
{
	bool alike = true, goes_on = true;

	while (alike && goes_on) {
		bool word = f->at[0] == f->lines[0].text || !is_of_name(f->at[0][-1]), blank = f->at[0][0] == ' ';

		alike = (word && (take_names(f, out, true) || take_names(f, out, false))) ||
		    (word && figures && (take_figures(f, out, false) || take_figures(f, out, true))) ||
		    take_same(f, out) || (figures && take_plurals(f, out));
		goes_on = !blank && f->at[0][0] != '\0';
	}
	return alike;
}

/* Whether the same mark stands behind the next word in each line. */
static bool has_mark(const struct fold *f)
{
	char mark = '\0';

	for (size_t i = 0; i < f->n; i++) {
		size_t len = strcspn(f->at[i], " ");
		char last = len < 2 ? '\0' : f->at[i][len - 1];

		if (i == 0)
			mark = last;
		if (last == '\0' || last != mark || strchr(MARKS, last) == NULL)
			return false;
	}
	return mark != '\0';
}

/* Several are, where one is. */
static void take_verb(struct fold *f, struct buffer *out)
{
	static const char *const verbs[][2] = { { " is ", " are" }, { " does ", " do" }, { " has ", " have" } };

	for (size_t v = 0; v < nitems(verbs); v++) {
		size_t same = 0, len = strlen(verbs[v][0]);

		while (same < f->n && strncmp(f->at[same], verbs[v][0], len) == 0)
			same++;
		if (same < f->n)
			continue;
		buffer_format(out, "%s", verbs[v][1]);
		for (size_t i = 0; i < f->n; i++)
			f->at[i] += len - 1;
	}
}

/* "a, b, c and 4 more"; false: a line has ended. */
static bool take_list(struct fold *f, struct buffer *out)
{
	bool marked = has_mark(f);	/* it belongs behind the list */
	char **words;

	for (size_t i = 0; i < f->n; i++)
		if (strcspn(f->at[i], " ") == 0)
			return false;
	words = alloc_zero(f->n, sizeof(*words));
	for (size_t i = 0; i < f->n; i++)
		words[i] = alloc_copy(f->at[i], strcspn(f->at[i], " ") - marked);
	for (size_t i = 0; i < f->n; i++)
		f->at[i] += strlen(words[i]);
	if (append_list(out, (const char *const *)words, f->n, WORDS_LISTED) > 1)
		take_verb(f, out);
	for (size_t i = 0; i < f->n; i++)
		free(words[i]);
	free(words);
	return true;
}

static bool any_goes_on(const struct fold *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->at[i][0] != '\0')
			return true;
	return false;
}

char *fold_text(const struct fold_line *lines, size_t n, bool only_names)
{
	struct fold f = { .lines = lines, .at = alloc_zero(n, sizeof(*f.at)), .n = n };
	const char **word = alloc_zero(n, sizeof(*word));
	struct buffer out = {0};
	bool alike = true, listed = false;	/* listed: the last word is a list */

	for (size_t i = 0; i < n; i++)
		f.at[i] = lines[i].text;
	while (alike && any_goes_on(&f)) {
		size_t len = out.len;

		memcpy(word, f.at, n * sizeof(*word));
		if (take_alike(&f, &out, !only_names)) {
			listed = listed && f.at[0] == word[0] + strspn(word[0], MARKS " ");	/* no word behind it */
			continue;
		}
		out.len = len;
		memcpy(f.at, word, n * sizeof(*word));
		alike = !only_names && !listed && take_list(&f, &out);
		listed = true;
	}
	free(f.at);
	free(word);
	if (alike)
		return text_of(&out);
	buffer_free(&out);
	return NULL;
}
