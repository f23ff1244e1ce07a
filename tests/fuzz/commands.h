#ifndef TESTS_FUZZ_COMMANDS_H
#define TESTS_FUZZ_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Runs commands of quredis in this process, with the server of fake_redis.h and the time of fake_time.h. Needs the --wrap
 * of both, and of isatty, conf_load and conf_free.
 */
struct commands_said {
	char *out, *err;		/* what it wrote; freed by the caller */
	size_t out_len, err_len;
	int status;
};

extern bool commands_terminal;		/* what a command believes of its standard streams */

void commands_begin(const char *conf);	/* once: the configuration of all commands */
struct commands_said commands_run(int argc, char **argv, const char *typed);

#endif
