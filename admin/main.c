/* quredis: parses the command line, finds the command, runs it and exits with its status. */
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <jansson.h>

#include "admin/commands/commands.h"

#include "common/base/base.h"

static int run_command(struct admin *a)
{
	const struct command *c;

	if (a->options.unknown[0] != '\0')
		return command_unknown_option(a);
	if (a->options.version)
		return cmd_version(a);
	if (a->noperands == 0 || (a->noperands == 1 && command_is_group(a, a->operands[0]))) {
		command_list(a, a->noperands == 0 ? NULL : a->operands[0], a->options.help ? stdout : stderr);
		a->status = a->options.help ? EX_OK : EX_USAGE;
		return a->options.help ? 0 : -1;
	}
	c = command_find(a);
	return c == NULL ? -1 : command_run(a, c);
}

/* True: standard output is a pipe or a socket, and nobody reads it any more. */
static bool reader_has_gone(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };

	return poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

/*
 * Output that could not be written is an error. A reader that has gone, as of `quredis ls | head -1`, knows that, so
 * nothing is printed. If an earlier write failed, calls after it have changed errno, so the reason is known only if the
 * last write fails, too.
 */
static int finish_output(void)
{
	bool flushed = fflush(stdout) == 0;
	int error = errno;

	if (flushed && !ferror(stdout))
		return 0;
	if (!reader_has_gone())
		fprintf(stderr, "quredis: standard output: %s\n",
		    flushed ? "not all of the output could be written" : strerror(error));
	return -1;
}

int main(int argc, char **argv)
{
	struct admin a = { .commands = &commands };

	process_hide_memory(true);
	/* without memory, jansson would leave members out of an object */
	json_set_alloc_funcs(alloc_bytes, free);
	setlocale(LC_CTYPE, "");		/* decides which characters a terminal can show */
	signal(SIGPIPE, SIG_IGN);		/* Redis may close the connection while we write */
	/* a write beyond the file size limit fails instead, as on a full disk */
	signal(SIGXFSZ, SIG_IGN);
	if (options_parse(&a.options, argc, argv) == -1 && a.options.unknown[0] == '\0') {
		options_free(&a.options);
		return EX_USAGE;
	}
	admin_choose_conf(&a);
	a.operands = a.options.operands;
	a.noperands = a.options.noperands;
	output_init(&a.output, stdout, a.options.json, a.options.colour);
	if (run_command(&a) == -1 && a.status == 0)
		a.status = EX_SOFTWARE;
	admin_close(&a);
	if (finish_output() == -1 && a.status == 0)
		a.status = EX_IOERR;
	return a.status;
}
