#ifndef COMMON_HANDLER_PIPES_H
#define COMMON_HANDLER_PIPES_H

#include <stdbool.h>

/* Both ends of every pipe of a run: [0] is read, [1] written; -1: not open. Close-on-exec, and
 * non-blocking at our end. */
struct handler_pipes {
	int in[2], out[2], err[2];
};

int handler_pipes_open(struct handler_pipes *p, bool with_stdin);	/* -1: none is open (errno) */
void handler_pipes_close(struct handler_pipes *p);			/* those not taken out; errno is kept */

void handler_fd_close(int *fd);		/* -1: nothing to do; becomes -1 */
int handler_pipe_open(int pair[2], int ours);	/* one of them; ours: 0 or 1, the end that never blocks */
int handler_fd_above(int *fd);		/* moves it off 0-2, where the child puts its own one by one */

#endif
