/* Opens, locks and writes the pid file in the same way as the lock file (supervisor/host/lock.c). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/host/pid_file.h"

#include "common/base/base.h"
#include "supervisor/host/lock.h"

void pid_file_init(struct pid_file *p)
{
	*p = (struct pid_file){ .fd = -1 };
}

static int write_pid(int fd, const char *path, char *error, size_t size)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());

	if (ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) == n)
		return 0;
	snprintf(error, size, "%s: cannot be written: %s", path, strerror(errno));
	return -1;
}

int pid_file_open(struct pid_file *p, const char *path, pid_t *holder, char *error, size_t size)
{
	int r;

	do {
		pid_file_close(p);
		p->fd = lock_file_open(path, error, size);
		if (p->fd == -1)
			return -1;
		r = lock_file_take(p->fd, path, holder, error, size);
	} while (r == LOCK_FILE_REPLACED);
	if (r == 0)
		r = write_pid(p->fd, path, error, size);
	if (r == 0)
		p->path = alloc_string(path);
	else
		pid_file_close(p);
	return r;
}

void pid_file_close(struct pid_file *p)
{
	if (p->fd != -1)
		close(p->fd);
	p->fd = -1;
	free(p->path);
	p->path = NULL;
}

/* Removes the file while it is still locked, so that it cannot be the file of another process. */
void pid_file_remove(struct pid_file *p)
{
	if (p->path != NULL)
		unlink(p->path);
	pid_file_close(p);
}
