#ifndef ADMIN_MOVES_SINGLE_H
#define ADMIN_MOVES_SINGLE_H

#include <stdbool.h>

#include "admin/cli/cli.h"

/*
 * Acts on single messages, which the operator names by their ids. A list has no index of ids, so a search reads it from the
 * message that comes next on, and ends after options.search messages. Small messages (below 64 KiB) without an id in their
 * header have the id "sha1:...", as quredis peek shows it; larger ones cannot be named.
 */
int single_retry(struct admin *a);		/* quredis retry QUEUE TYPE ID... */

#endif
