/* A command of quredis, run as main() runs it, but for its process. */
#include <fcntl.h>
#include <getopt.h>
#include <locale.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/commands.h"

#include "admin/commands/commands.h"
#include "common/base/alloc.h"
#include "tests/fuzz/conf_text.h"
#include "tests/fuzz/input.h"

bool commands_terminal;
static struct conf *conf;

int __wrap_isatty(int fd);
struct conf *__wrap_conf_load(const char *path, unsigned flags, struct conf_report *report);
struct conf *__real_conf_load(const char *path, unsigned flags, struct conf_report *report);
void __wrap_conf_free(struct conf *c);

int __wrap_isatty(int fd)
{
	(void)fd;
	return commands_terminal;
}

/* Read once, for all runs. */
struct conf *__wrap_conf_load(const char *path, unsigned flags, struct conf_report *report)
{
	if (conf == NULL)
		return __real_conf_load(path, flags, report);
	*report = (struct conf_report){0};
	return conf;
}

void __wrap_conf_free(struct conf *c)
{
	(void)c;
}

void commands_begin(const char *text)
{
	int null = open("/dev/null", O_RDONLY);

	FUZZ_ASSERT(null != -1 && dup2(null, STDIN_FILENO) == STDIN_FILENO);
	setlocale(LC_CTYPE, "C.UTF-8");
	conf = conf_text_load(text);
}

static int run(int argc, char **argv)
{
	struct admin a = { .commands = &commands };
	const struct command *c;

	FUZZ_ASSERT(options_parse(&a.options, argc, argv) == 0);
	a.operands = a.options.operands;
	a.noperands = a.options.noperands;
	output_init(&a.output, stdout, a.options.json, a.options.colour);
	c = command_find(&a);
	FUZZ_ASSERT(c != NULL);
	if (command_run(&a, c) == -1)
		FUZZ_ASSERT(a.status != 0);
	admin_close(&a);
	return a.status;
}

struct commands_said commands_run(int argc, char **argv, const char *typed)
{
	FILE *own_stdout = stdout, *own_stderr = stderr, *own_stdin = stdin;
	struct commands_said said = {0};
	char *input = alloc_string(typed);

	optind = 0;		/* getopt begins anew */
	stdout = open_memstream(&said.out, &said.out_len);
	stderr = open_memstream(&said.err, &said.err_len);
	stdin = fmemopen(input, strlen(input), "r");
	FUZZ_ASSERT(stdout != NULL && stderr != NULL && stdin != NULL);
	said.status = run(argc, argv);
	fclose(stdin);
	fclose(stdout);
	fclose(stderr);
	stdin = own_stdin;
	stdout = own_stdout;
	stderr = own_stderr;
	free(input);
	return said;
}
