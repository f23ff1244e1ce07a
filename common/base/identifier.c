/* Judges identifiers that others choose. Letters are those of ASCII, whatever the locale. */
#include <string.h>

#include "common/base/identifier.h"

static const struct {
	size_t max;			/* bytes */
	const char *marks;		/* bytes that may follow the first one, beside letters and digits */
	const char *form;
} kinds[] = {
	[IDENTIFIER_NAME] = { QUEUE_NAME_MAX, "._-", "1 to 64 letters, digits, dots, dashes and underscores, of which "
	    "the first is a letter or a digit" },
	[IDENTIFIER_CLASS] = { IDENTIFIER_CLASS_MAX, "._:-",
	    "1 to 64 letters, digits and . _ : -, of which the first is a letter or a digit" },
	[IDENTIFIER_ID] = { IDENTIFIER_ID_MAX, "._:+-",
	    "1 to 128 letters, digits and . _ : + -, of which the first is a letter or a digit" },
};

static bool is_letter_or_digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool identifier_is(enum identifier kind, const char *text, size_t len)
{
	if (len == 0 || len > kinds[kind].max || !is_letter_or_digit(text[0]))
		return false;
	for (size_t i = 1; i < len; i++)
		if (!is_letter_or_digit(text[i]) && (text[i] == '\0' || strchr(kinds[kind].marks, text[i]) == NULL))
			return false;
	return true;
}

const char *identifier_form(enum identifier kind)
{
	return kinds[kind].form;
}
