#ifndef ADMIN_WEB_WEB_H
#define ADMIN_WEB_WEB_H

#include "admin/cli/cli.h"

/* The web console, and what other programs may show of it. The other headers of this folder are its own. */
int cmd_web(struct admin *a);

/* The answers of ls, stats, health and nodes in one document, for a child. NULL: *status is why there are none. */
struct json_t *web_overview(const struct admin *server, int *status);

#endif
