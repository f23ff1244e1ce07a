#ifndef ADMIN_CLI_LOOKUP_H
#define ADMIN_CLI_LOOKUP_H

#include "admin/cli/admin.h"

/* Finds a queue in the configuration or the registry. -1: there is none, or it cannot be read; an error was printed. */
int lookup_queue(struct admin *a, const char *name, struct queue_keys *keys);

/*
 * Reads the names in the registry: new strings in a new array. A registry of the wrong type has none, and is no error:
 * a note names the key, and the exit status becomes EX_CONFIG.
 */
int lookup_names(struct admin *a, char ***names, size_t *n);
void lookup_names_free(char **names, size_t n);

#endif
