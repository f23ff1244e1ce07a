#ifndef ADMIN_CLI_CONNECTION_H
#define ADMIN_CLI_CONNECTION_H

#include "admin/cli/admin.h"

/* Opens the connection of a command to its Redis. Returns 0; or -1 after admin_fail(). It requires admin_load(). */
int connection_open(struct admin *a);

/*
 * " -c PATH -u URL", quoted for a shell: the options by which this command found its Redis, for a command that an
 * operator pastes. The password of the URL is left out. A new string.
 */
char *connection_words(const struct admin *a);

#endif
