/* The codes of health: of figures, whose rows are in codes.h, and of holds, whose table has them. */
#include <string.h>

#include "common/holds/holds.h"

const struct code_words codes_table[HEALTH_HOLDS] = {
#define X(id, ...) [HEALTH_##id] = { __VA_ARGS__ },
	CODES_TABLE(X)
#undef X
};

/* A row of the table above comes first, then the first hold of this code. */
enum health_code holds_code(enum hold hold)
{
	const char *name = holds_table[hold].code;
	int code = 0, first = HOLD_NONE + 1;

	if (name == NULL)
		return HEALTH_CODES;
	while (code < HEALTH_HOLDS && strcmp(codes_table[code].name, name) != 0)
		code++;
	while (code == HEALTH_HOLDS && (holds_table[first].code == NULL || strcmp(holds_table[first].code, name) != 0))
		first++;
	return (enum health_code)(code < HEALTH_HOLDS ? code : HEALTH_HOLDS + first);
}

const char *holds_code_name(enum health_code code)
{
	enum hold hold = (enum hold)(code - HEALTH_HOLDS);

	if (code < HEALTH_HOLDS)
		return codes_table[code].name;
	return holds_code(hold) == code ? holds_table[hold].code : NULL;
}
