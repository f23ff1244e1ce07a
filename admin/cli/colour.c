/* Colours of a terminal, by meaning. All output with colours takes them from here, so that one meaning has one colour
 * in every command. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/cli/colour.h"

#include "common/base/base.h"
#include "common/holds/holds.h"

const char *const colour_choices[COLOUR_CHOICES] =
    { [COLOUR_AUTO] = "auto", [COLOUR_ALWAYS] = "always", [COLOUR_NEVER] = "never" };

/* Of the eight colours that every terminal has, those that can be read on black and on white. The operator's theme
 * decides how they look. */
static const char *const sequences[MEANINGS] = {
	[MEANING_NONE] = "",
	[MEANING_GOOD] = "\033[32m",		/* green */
	[MEANING_WARNING] = "\033[33m",		/* yellow */
	[MEANING_BAD] = "\033[1;31m",		/* bold red */
	[MEANING_FAINT] = "\033[2m",
	[MEANING_HEADING] = "\033[1m",		/* bold */
};

static const struct { const char *word; enum colour_meaning meaning; } words[] = {
	/* health, queue_health_names */
	{ "healthy", MEANING_GOOD },
	{ "degraded", MEANING_WARNING },
	{ "unhealthy", MEANING_BAD },
	{ "unknown", MEANING_WARNING },
	/* severities of doctor */
	{ "ok", MEANING_GOOD },
	{ "note", MEANING_FAINT },
	{ "warning", MEANING_WARNING },
	{ "fixed", MEANING_GOOD },
};

bool colour_terminal_obeys(void)
{
	const char *term = getenv("TERM");

	return term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0;
}

bool colour_is_wanted(enum colour_choice choice, int fd)
{
	const char *no_color = getenv("NO_COLOR");

	if (choice != COLOUR_AUTO)
		return choice == COLOUR_ALWAYS;
	return isatty(fd) == 1 && colour_terminal_obeys() && (no_color == NULL || no_color[0] == '\0');
}

const char *colour_begin(bool wanted, enum colour_meaning meaning)
{
	return wanted ? sequences[meaning] : "";
}

const char *colour_end(bool wanted, enum colour_meaning meaning)
{
	return wanted && sequences[meaning][0] != '\0' ? "\033[0m" : "";
}

enum colour_meaning colour_meaning_of(const char *word)
{
	static const enum colour_meaning of_levels[] = {
		[HOLD_WELL] = MEANING_GOOD, [HOLD_ORDERED] = MEANING_WARNING, [HOLD_PASSING] = MEANING_WARNING,
		[HOLD_WARNING] = MEANING_WARNING,
		[HOLD_BAD] = MEANING_BAD
	};
	enum hold hold = holds_by_name(word);

	if (hold != HOLDS)
		return of_levels[holds_table[hold].level];
	for (size_t i = 0; word != NULL && i < nitems(words); i++)
		if (strcmp(words[i].word, word) == 0)
			return words[i].meaning;
	return MEANING_NONE;
}
