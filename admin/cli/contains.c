/* The search behind --text. It is simple, since a search is bounded by what Redis reads. */
#include <ctype.h>
#include <string.h>

#include "admin/cli/contains.h"

bool contains_text(const void *data, size_t len, const char *text)
{
	const unsigned char *s = data;
	size_t text_len = strlen(text);

	for (size_t i = 0; i + text_len <= len; i++) {
		size_t n = 0;

		while (n < text_len && tolower(s[i + n]) == tolower((unsigned char)text[n]))
			n++;
		if (n == text_len)
			return true;
	}
	return false;
}
