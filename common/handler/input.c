/*
 * The input of an exec handler. A payload that fits into the pipe is written before the handler starts, which saves a
 * turn of the loop. A larger one is written without blocking, so a handler that reads slowly or not at all delays
 * nothing else.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/handler/input.h"
#include "common/handler/spawn.h"

#define ARGUMENT_MAX (100 * 1024)	/* Linux accepts 128 KiB in one string */

void handler_input_init(struct handler_input *in)
{
	*in = (struct handler_input){ .fd = -1, .null_fd = -1 };
}

void handler_input_free(struct handler_input *in)
{
	handler_fd_close(&in->fd);
	handler_fd_close(&in->null_fd);
	buffer_free(&in->argument);
}

void handler_input_begin(struct handler_input *in, int fd, const struct message *m)
{
	in->fd = fd;
	in->data = message_payload(m);
	in->len = message_payload_len(m);
	handler_input_feed(in);
}

/* SIGPIPE is ignored; EPIPE says that the handler has closed its input. */
void handler_input_feed(struct handler_input *in)
{
	while (in->fd != -1 && in->len > 0) {
		ssize_t n = write(in->fd, in->data, in->len);

		if (n > 0) {
			in->data += n;
			in->len -= (size_t)n;
		} else if (n == -1 && errno == EAGAIN) {
			return;
		} else if (n == -1 && errno != EINTR) {
			break;
		}
	}
	handler_fd_close(&in->fd);
}

void handler_input_end(struct handler_input *in)
{
	handler_fd_close(&in->fd);
}

char *handler_input_argument(struct handler_input *in, const struct message *m)
{
	size_t len = message_payload_len(m);

	if (len > ARGUMENT_MAX || (len > 0 && memchr(message_payload(m), '\0', len) != NULL))
		return NULL;
	buffer_clear(&in->argument);
	buffer_append(&in->argument, message_payload(m), len);
	buffer_append(&in->argument, "", 1);
	return in->argument.data;
}

int handler_input_null(struct handler_input *in)
{
	if (in->null_fd == -1)
		in->null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return in->null_fd == -1 ? -1 : handler_fd_move(&in->null_fd, STDERR_FILENO + 1);
}
