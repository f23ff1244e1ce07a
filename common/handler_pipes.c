/*
 * The pipes of a run: made before there is a process, so that a handler without them is never
 * started. Who reads and writes them: handler_input.c and handler_output.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/handler_pipes.h"

void handler_fd_close(int *fd)
{
	if (*fd != -1)
		close(*fd);
	*fd = -1;
}

static void close_pair(int pair[2])
{
	handler_fd_close(&pair[0]);
	handler_fd_close(&pair[1]);
}

void handler_pipes_close(struct handler_pipes *p)
{
	int error = errno;

	close_pair(p->in);
	close_pair(p->out);
	close_pair(p->err);
	errno = error;
}

int handler_fd_above(int *fd)
{
	int low = *fd;

	if (low > STDERR_FILENO)
		return 0;
	*fd = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(low);
	return *fd == -1 ? -1 : 0;
}

/* The handler's end does block: it is not used to anything else. */
int handler_pipe_open(int pair[2], int ours)
{
	if (pipe2(pair, O_CLOEXEC) == -1)
		return -1;
	if (handler_fd_above(&pair[0]) == -1 || handler_fd_above(&pair[1]) == -1)
		return -1;
	return fcntl(pair[ours], F_SETFL, O_NONBLOCK);
}

int handler_pipes_open(struct handler_pipes *p, bool with_stdin)
{
	*p = (struct handler_pipes){ { -1, -1 }, { -1, -1 }, { -1, -1 } };
	if ((!with_stdin || handler_pipe_open(p->in, 1) == 0) && handler_pipe_open(p->out, 0) == 0 && handler_pipe_open(p->err, 0) == 0)
		return 0;
	handler_pipes_close(p);
	return -1;
}
