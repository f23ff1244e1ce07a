#ifndef COMMON_HANDLER_PIPES_H
#define COMMON_HANDLER_PIPES_H

/*
 * Both ends of a pipe to or from a handler: [0] is read, [1] written; -1: not open. Close-on-exec, none of them
 * 0 to 2, where the child puts its own one by one. ours: the end that never blocks; -1: both do.
 */
int handler_pipe_open(int pair[2], int ours);	/* -1: none is open (errno) */
void handler_pipe_close(int pair[2]);		/* what is open of it; errno is kept */

void handler_fd_close(int *fd);			/* -1: nothing to do; becomes -1 */
int handler_fd_move(int *fd, int least);	/* to a number >= least, if it is not. -1: closed (errno) */

#endif
