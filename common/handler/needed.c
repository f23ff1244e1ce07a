/*
 * The files that a handler needs besides its program: the script that its command line gives to an interpreter, and the
 * interpreter that the first line of its program names. The kernel does not look at the script, and an interpreter that
 * cannot open its script exits with a status as any handler does. So the child tries the script before exec; otherwise
 * each message would be charged for a run that never began.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/base/base.h"
#include "common/handler/cause.h"
#include "common/handler/needed.h"
#include "common/handler/spawn.h"

/*
 * Programs that run the file of their first argument that is no option. flags: the letters of options that take no
 * value and do not give the program text in another way. Behind any other option the script is not known.
 */
static const struct interpreter {
	const char *name;	/* without its version: python3.11 is python */
	const char *flags;
} INTERPRETERS[] = {
	{ "bash", "efuvx" }, { "dash", "efuvx" }, { "ksh", "efuvx" }, { "lua", "EW" }, { "node", "" }, { "nodejs", "" },
	{ "perl", "TWUtw" }, { "php", "n" }, { "pypy", "BEOqsSuv" }, { "python", "BEIOqsSuv" }, { "ruby", "vw" },
	{ "sh", "efuvx" }, { "tclsh", "" }, { "zsh", "efuvx" },
};

static const struct interpreter *interpreter_of(const char *program)
{
	const char *slash = strrchr(program, '/'), *name = slash == NULL ? program : slash + 1;
	size_t len = strlen(name);

	while (len > 0 && strchr("0123456789.", name[len - 1]) != NULL)
		len--;
	for (size_t i = 0; i < nitems(INTERPRETERS); i++)
		if (strlen(INTERPRETERS[i].name) == len && strncmp(INTERPRETERS[i].name, name, len) == 0)
			return &INTERPRETERS[i];
	return NULL;
}

static bool is_flag(const struct interpreter *i, const char *argument)
{
	return argument[0] == '-' && argument[1] != '\0' && strspn(argument + 1, i->flags) == strlen(argument + 1);
}

/* A name without a slash is looked for in places that differ between interpreters. */
const char *handler_script(char *const *argv)
{
	const struct interpreter *interpreter = interpreter_of(argv[0]);

	if (interpreter == NULL)
		return NULL;
	do
		argv++;
	while (*argv != NULL && is_flag(interpreter, *argv));
	return *argv != NULL && (*argv)[0] != '-' && strchr(*argv, '/') != NULL ? *argv : NULL;
}

/* NULL: it cannot be read, or names none. */
static const char *interpreter_in(const char *path, char out[HANDLER_FILE_SIZE])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t n = fd == -1 ? -1 : read(fd, out, HANDLER_FILE_SIZE - 1);
	char *name = out + 2;

	if (fd != -1)
		close(fd);
	if (n < 2 || out[0] != '#' || out[1] != '!')
		return NULL;
	out[n] = '\0';
	name += strspn(name, " \t");
	name[strcspn(name, " \t\n")] = '\0';		/* a carriage return is a part of the name, for the kernel, too */
	return name[0] == '\0' ? NULL : name;
}

const char *handler_file_of(const char *stage, char *const *argv, char out[HANDLER_FILE_SIZE])
{
	if (strcmp(stage, handler_stage_names[HANDLER_STAGE_EXECVE]) == 0)
		return argv[0];
	if (strcmp(stage, handler_stage_names[HANDLER_STAGE_SCRIPT]) == 0)
		return handler_script(argv);
	if (strcmp(stage, handler_stage_names[HANDLER_STAGE_INTERPRETER]) == 0)
		return interpreter_in(argv[0], out);
	return NULL;
}
