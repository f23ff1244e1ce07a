/* The table of deprecated names. It is searched for each key, option and metric, and has few rows or none. */
#include <stdbool.h>
#include <string.h>

#include "common/base/alloc.h"
#include "common/base/deprecated.h"

/* The last row has no name. */
static const struct deprecated rows[] = {
#define X(kind, name, instead, removed_in) { DEPRECATED_##kind, name, instead, removed_in },
	DEPRECATED_TABLE(X)
#undef X
	{0},
};

static bool is_name(const struct deprecated *row, const char *of, const char *name)
{
	size_t len = strlen(of);

	return strncmp(row->name, of, len) == 0 && strcmp(row->name + len, name) == 0;
}

const struct deprecated *deprecated_find(enum deprecated_kind kind, const char *of, const char *name)
{
	for (const struct deprecated *row = rows; row->name != NULL; row++)
		if (row->kind == kind && is_name(row, of, name))
			return row;
	return NULL;
}

char *deprecated_advice(const struct deprecated *d)
{
	return alloc_format("deprecated: version %s removes it; use %s", d->removed_in, d->instead);
}
