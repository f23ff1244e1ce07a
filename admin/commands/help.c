/* quredis help, quredis version. */
#include <stdio.h>

#include "admin/commands/commands.h"

int cmd_help(struct admin *a)
{
	const struct command *c;

	if (a->noperands == 0 || (a->noperands == 1 && command_is_group(a, a->operands[0]))) {
		command_list(a, a->noperands == 0 ? NULL : a->operands[0], stdout);
		return 0;
	}
	c = command_find(a);
	if (c == NULL)
		return -1;
	command_help(c, stdout);
	return 0;
}

int cmd_version(struct admin *a)
{
	static const struct column columns[] = { { "version", "Version", false } };

	if (a->options.json)
		output_object(&a->output, columns, 1, (struct cell[]){ cell_str(QUREDIS_VERSION) });
	else
		printf("quredis %s\n", QUREDIS_VERSION);
	return 0;
}
