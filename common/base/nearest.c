/*
 * "Did you mean?": the known word that is most similar to a misspelled one. Similarity is the edit distance: the least
 * number of letters to insert, remove, replace, or swap with their neighbour. The table of distances between all
 * beginnings of two words is computed row by row; a row needs only the two above it.
 */
#include <stdbool.h>
#include <string.h>

#include <sys/param.h>

#include "common/base/nearest.h"

#define WORD_MAX 63	/* bytes; a longer word is similar to none */

static size_t least(size_t a, size_t b, size_t c)
{
	return MIN(a, MIN(b, c));
}

/* One row of the edit distance table from the two rows above it. */
static void next_row(const char *a, size_t i, const char *b, size_t bn, const size_t *above2, const size_t *above,
    size_t *row)
{
	row[0] = i;
	for (size_t j = 1; j <= bn; j++) {
		row[j] = least(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
		if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
			row[j] = MIN(row[j], above2[j - 2] + 1);
	}
}

static size_t distance(const char *a, const char *b)
{
	size_t rows[3][WORD_MAX + 1] = {0};
	size_t an = strlen(a), bn = strlen(b);

	if (an > WORD_MAX || bn > WORD_MAX)
		return an + bn;
	for (size_t j = 0; j <= bn; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= an; i++)
		next_row(a, i, b, bn, rows[(i + 1) % 3], rows[(i + 2) % 3], rows[i % 3]);
	return rows[an % 3][bn];
}

size_t nearest_all(const char *name, const char *const *candidates, size_t n, const char **found, size_t most)
{
	size_t least_distance = 1 + strlen(name) / 6 + 1, nfound = 0;
	/* of two that are equally similar, the one with the same first letter: a slip is rarely there */
	bool same_letter = false;

	for (size_t i = 0; i < n; i++) {
		size_t d = distance(name, candidates[i]);
		bool same = candidates[i][0] == name[0];

		if (d < least_distance || (d == least_distance && nfound > 0 && same && !same_letter)) {
			least_distance = d;
			same_letter = same;
			nfound = 0;
		} else if (d > least_distance || nfound == 0 || same != same_letter) {
			continue;
		}
		if (nfound < most)
			found[nfound++] = candidates[i];
	}
	return nfound;
}

const char *nearest(const char *name, const char *const *candidates, size_t n)
{
	const char *best;

	return nearest_all(name, candidates, n, &best, 1) == 0 ? NULL : best;
}
