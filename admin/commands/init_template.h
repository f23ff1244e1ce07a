#ifndef ADMIN_COMMANDS_INIT_TEMPLATE_H
#define ADMIN_COMMANDS_INIT_TEMPLATE_H

#include <sys/types.h>

#include "admin/cli/cli.h"

/* The first handler in each language, as quredis init writes it. */
struct init_template {
	const char *language;
	const char *file;
	mode_t mode;
	const char *handler;	/* the keys of the queue before and after the path of the file */
	const char *keys;
	const char *text;
};

const struct init_template *init_template_find(struct admin *a);	/* of --lang. NULL: an error was printed */

#endif
