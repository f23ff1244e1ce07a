/*
 * Pipes to and from handlers: made before there is a process, so that a handler without them is never
 * started. Who reads and writes them: handler_input.c, handler_output.c and common/persistent.c.
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

void handler_pipe_close(int pair[2])
{
	int error = errno;

	handler_fd_close(&pair[0]);
	handler_fd_close(&pair[1]);
	errno = error;
}

int handler_fd_move(int *fd, int least)
{
	int low = *fd;

	if (low >= least)
		return 0;
	*fd = fcntl(low, F_DUPFD_CLOEXEC, least);
	if (*fd == -1 && errno == EINVAL)
		errno = EMFILE;		/* what it says where the limit is below least */
	close(low);
	return *fd == -1 ? -1 : 0;
}

/* The handler's end does block: it is not used to anything else. */
int handler_pipe_open(int pair[2], int ours)
{
	pair[0] = pair[1] = -1;
	if (pipe2(pair, O_CLOEXEC) == -1)
		return -1;
	if (handler_fd_move(&pair[0], STDERR_FILENO + 1) == 0 && handler_fd_move(&pair[1], STDERR_FILENO + 1) == 0 &&
	    (ours == -1 || fcntl(pair[ours], F_SETFL, O_NONBLOCK) == 0))
		return 0;
	handler_pipe_close(pair);
	return -1;
}
