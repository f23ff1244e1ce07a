/*
 * The files that a handler needs besides its program: the script that its command line gives to an interpreter, and the
 * interpreter that the first line of its program names. The kernel does not look at the script, and an interpreter that
 * cannot open its script exits with a status as any handler does. So the child tries the script before exec; otherwise
 * each message would be charged for a run that never began. The program itself is such a script if its first line names
 * a known interpreter.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "common/base/base.h"
#include "common/conf/conf.h"
#include "common/handler/script.h"
#include "common/handler/spawn.h"

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
	/* a carriage return is a part of the name, for the kernel, too */
	name[strcspn(name, " \t\n")] = '\0';
	return name[0] == '\0' ? NULL : name;
}

int handler_script_open(const char *program)
{
	return open(program, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

bool handler_script_lacks_right(int fd, const char *program)
{
	char head[HANDLER_FILE_SIZE];
	int error;
	ssize_t n;

	if (fd == -1 || access(program, R_OK) == 0 || (error = errno) != EACCES)
		return false;
	n = read(fd, head, sizeof(head));
	errno = error;
	return n > 0 && conf_runs_by_script(head, (size_t)n, program);
}

bool handler_script_is_unusable(const struct conf_script *script)
{
	struct stat st;

	if (access(script->path, script->may) == -1)
		return true;
	/* some interpreters run a file of a directory; a shell takes a directory for an empty script that succeeds */
	if (script->main != NULL || stat(script->path, &st) == -1 || !S_ISDIR(st.st_mode))
		return false;
	errno = EISDIR;
	return true;
}

/* Without a script in the command line the program itself is one: its first line names an interpreter. */
const char *handler_stage_file(unsigned stage, char *const *argv, char out[HANDLER_FILE_SIZE])
{
	struct conf_script script;

	if (stage == HANDLER_STAGE_SCRIPT && conf_find_script(argv, &script)) {
		strlcpy(out, script.path, HANDLER_FILE_SIZE);
		return out;
	}
	return stage == HANDLER_STAGE_SCRIPT || stage == HANDLER_STAGE_EXECVE || stage == HANDLER_STAGE_INTERPRETER
	    ? argv[0] : NULL;
}

const char *handler_file_of(const char *stage, char *const *argv, char out[HANDLER_FILE_SIZE])
{
	unsigned i = HANDLER_STAGE_NONE;

	if (strcmp(stage, handler_stage_names[HANDLER_STAGE_INTERPRETER]) == 0)
		return interpreter_in(argv[0], out);
	while (i < HANDLER_STAGES && strcmp(stage, handler_stage_names[i]) != 0)
		i++;
	return handler_stage_file(i, argv, out);
}
