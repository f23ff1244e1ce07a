#ifndef ADMIN_WEB_WEB_H
#define ADMIN_WEB_WEB_H

#include "admin/cli/cli.h"

/* The web console, and its overview, which quredis top shows, too. Only this folder includes its other headers. */
int cmd_web(struct admin *a);

/* The answers of ls, stats, health and nodes in one document, for a child. NULL: *status is why there are none. */
struct json_t *web_overview(const struct admin *server, int *status);
/* The answer of one command, on a queue (NULL: it takes none), for a child. NULL: it is incomplete, and *status is its
 * exit status. */
struct json_t *web_answer_of(const struct admin *server, struct options *options, const char *command,
    const char *queue, int *status);

#endif
