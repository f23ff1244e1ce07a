/*
 * Chooses the configuration file of a program: the option, else $QUREDIS_CONF, else quredis.conf in the current
 * directory, else the file of the system.
 *
 * A file of the current directory names programs to run, so another user must not be able to offer one, as in /tmp: it
 * counts only as a regular file, not a link, of the user who runs the program. If it counts, and others can write to
 * it, the load refuses it (source.c): to take the file of the system instead would hide that. For root it never counts:
 * root enters directories of other users.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/conf/conf.h"

#include "common/base/base.h"

#define HERE "quredis.conf"

char *conf_absolute_path(const char *path)
{
	char *here = path[0] == '/' ? NULL : get_current_dir_name(), *whole;

	whole = here == NULL ? alloc_string(path) : alloc_format("%s/%s", here, path);
	free(here);
	return whole;
}

/* Why the file of the current directory does not count: a new string, or "" if there is none. NULL: it counts. */
static char *flaw_of_here(void)
{
	/* neither follows a link nor needs the right to read: the load reports a file that cannot be read */
	int fd = open(HERE, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	char *flaw = NULL;

	if (fd == -1)
		return alloc_string("");
	if (fstat(fd, &st) == -1)
		flaw = alloc_string(strerror(errno));
	else if (S_ISLNK(st.st_mode))
		flaw = alloc_string("is a symbolic link");
	else if (!S_ISREG(st.st_mode))
		flaw = alloc_string("is not a regular file");
	else if (st.st_uid != geteuid())
		flaw = alloc_format("belongs to uid %u", st.st_uid);
	else if (st.st_uid == 0)
		flaw = alloc_string("is not looked for as root");
	close(fd);
	return flaw;
}

static void take_system(struct conf_choice *c, char *flaw)
{
	c->path = alloc_string(CONF_SYSTEM_PATH);
	c->system = true;
	c->why = flaw[0] == '\0' ? alloc_string("the default")
	    : alloc_format("the default, since ./%s %s: name it with -c", HERE, flaw);
	free(flaw);
}

void conf_choose(const char *option, struct conf_choice *c)
{
	const char *named = secure_getenv("QUREDIS_CONF");
	char *flaw;

	*c = (struct conf_choice){0};
	if (option != NULL) {
		c->path = alloc_string(option);
		c->why = alloc_string("-c");
	} else if (named != NULL && named[0] != '\0') {
		c->path = conf_absolute_path(named);
		c->why = alloc_string("$QUREDIS_CONF");
	} else if ((flaw = flaw_of_here()) == NULL) {
		c->path = conf_absolute_path(HERE);
		c->why = alloc_string("the current directory");
	} else {
		take_system(c, flaw);
	}
}

char *conf_choice_text(const struct conf_choice *c)
{
	return alloc_format("%s (%s)", c->path, c->why);
}

void conf_choice_free(struct conf_choice *c)
{
	free(c->path);
	free(c->why);
	*c = (struct conf_choice){0};
}
