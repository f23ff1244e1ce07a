#ifndef COMMON_HANDLER_INPUT_H
#define COMMON_HANDLER_INPUT_H

#include <stddef.h>

#include "common/base/base.h"
#include "common/message/message.h"

/* Passes the payload to the handler: on its stdin, as fast as the handler reads, or as its last argument. */
struct handler_input {
	/* write end of its stdin; -1: all is written, the handler closed it, or the payload is an argument */
	int fd;
	const char *data;	/* the unwritten rest, in the message */
	size_t len;
	struct buffer argument;	/* the payload and a NUL */
	int null_fd;		/* its stdin when the payload is an argument; -1: not opened yet */
};

void handler_input_init(struct handler_input *in);
void handler_input_free(struct handler_input *in);

/* Takes fd (close-on-exec; non-blocking, or an empty pipe that takes all of it) and writes what fits. */
void handler_input_begin(struct handler_input *in, int fd, const struct message *m);
void handler_input_feed(struct handler_input *in);	/* writes what fits; closes after the last byte */
void handler_input_end(struct handler_input *in);	/* closes */

/* The payload as a string, valid until the next call; NULL: a NUL or more than 100 KiB. */
char *handler_input_argument(struct handler_input *in, const struct message *m);
int handler_input_null(struct handler_input *in);	/* /dev/null, owned; -1: errno */

#endif
