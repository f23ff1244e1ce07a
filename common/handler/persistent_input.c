/*
 * Writes frames to a persistent handler. Bytes that are still in the pipe when the process ends were never read, so
 * this file knows which jobs the handler cannot have begun. A large payload is written from the message itself; all
 * other bytes are copied to one buffer.
 */
#include <sys/ioctl.h>
#include <sys/uio.h>

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/handler/persistent_input.h"

#include "common/base/base.h"
#include "common/handler/spawn.h"

#define LARGE (64 * 1024)		/* a payload of this size or more is not copied */
#define KEPT_MAX (64 * 1024)		/* a buffer larger than this is freed when it is empty */
#define HEAD_MAX 768			/* three ids, the name of a schedule, a traceparent, some numbers and names */

void persistent_input_init(struct persistent_input *in)
{
	*in = (struct persistent_input){ .fd = -1 };
}

void persistent_input_free(struct persistent_input *in)
{
	handler_fd_close(&in->fd);
	buffer_free(&in->out);
}

void persistent_input_begin(struct persistent_input *in, int fd)
{
	in->fd = fd;
	buffer_clear(&in->out);
	in->at = 0;
	in->large = NULL;
	in->total = in->taken = 0;
}

/* ---- frames ---- */

static char *put_id(char *at, const char *key, const char *id)
{
	return id[0] == '\0' ? at : put_text(put_text(at, key), id);
}

/* Writes the line "JOB token attempt bytes [key=value …]" into HEAD_MAX bytes, and returns its end. Every message pays
 * for it, so printf writes none of it. */
static char *put_head(char *at, const struct token *token, const struct handler_job *job, int64_t deadline_ms)
{
	const struct message_schedule *schedule = &job->message->wrapper.schedule;
	const struct message_lineage *lineage = &job->message->wrapper.lineage;
	const char *traceparent = message_traceparent(job->message);
	char scheduled[CLOCK_RFC3339_SIZE];

	at = put_text(at, "JOB ");
	memcpy(at, token->text, sizeof(token->text));
	at += sizeof(token->text);
	*at++ = ' ';
	at = put_number(at, (uint64_t)job->attempt);
	*at++ = ' ';
	at = put_number(at, message_payload_len(job->message));
	at = put_id(at, " id=", job->message->id);
	at = put_id(at, " request_id=", job->message->request_id);
	at = put_id(at, " traceparent=", traceparent == NULL ? "" : traceparent);
	if (job->max_attempts > 1)
		at = put_number(put_text(at, " max_attempts="), (uint64_t)job->max_attempts);
	if (job->redelivered)
		at = put_text(at, " redelivered=1");
	if (schedule->name[0] != '\0')
		at = put_id(put_id(at, " schedule=", schedule->name), " scheduled_at=",
		    clock_rfc3339(schedule->at_ms, scheduled));
	if (lineage->depth > 0)
		at = put_number(put_text(put_id(at, " root=", lineage->root), " depth="), (uint64_t)lineage->depth);
	if (deadline_ms >= 0)
		at = put_number(put_text(at, " deadline="), (uint64_t)deadline_ms);
	*at++ = '\n';
	return at;
}

void persistent_input_add(struct persistent_input *in, const struct token *token, const struct handler_job *job,
    int64_t deadline_ms)
{
	size_t len = message_payload_len(job->message);
	bool large = len >= LARGE;
	char *begin, *at;

	assert(in->large == NULL);
	if (in->at > in->out.len / 2) {		/* for a reader that is always behind, the buffer is never empty */
		buffer_consume(&in->out, in->at);
		in->at = 0;
	}
	begin = buffer_room(&in->out, HEAD_MAX + (large ? 0 : len + 1));
	at = put_head(begin, token, job, deadline_ms);
	in->total += (size_t)(at - begin) + len + 1;
	if (large) {
		in->large = message_payload(job->message);
		in->large_len = len;
	} else {
		memcpy(at, message_payload(job->message), len);
		at += len;
		*at++ = '\n';
	}
	in->out.len += (size_t)(at - begin);
}

void persistent_input_own(struct persistent_input *in)
{
	if (in->large == NULL)
		return;
	buffer_append(&in->out, in->large, in->large_len);
	buffer_append(&in->out, "\n", 1);
	in->large = NULL;
}

/* ---- writing ---- */

size_t persistent_input_pending(const struct persistent_input *in)
{
	return in->out.len - in->at + (in->large == NULL ? 0 : in->large_len + 1);
}

bool persistent_input_is_read(const struct persistent_input *in)
{
	uint64_t written = in->total - persistent_input_pending(in);
	int unread;

	if (in->fd == -1 || ioctl(in->fd, FIONREAD, &unread) == -1)
		return true;		/* the kernel does not say; to assume that they were read delays nothing */
	return (uint64_t)unread < written;
}

void persistent_input_recall(struct persistent_input *in, uint64_t begin)
{
	uint64_t done = in->total - persistent_input_pending(in);

	assert(begin >= done && begin <= in->total);
	in->out.len = in->at + (size_t)(begin - done);
	in->large = NULL;	/* it belongs to the last frame, which is taken back, too */
	in->total = begin;
}

static void written(struct persistent_input *in, size_t n)
{
	size_t out = in->out.len - in->at, large;

	if (n < out) {
		in->at += n;
		return;
	}
	in->at = 0;
	if (in->out.cap > KEPT_MAX)
		buffer_free(&in->out);
	buffer_clear(&in->out);
	n -= out;
	if (in->large == NULL)
		return;
	large = n < in->large_len ? n : in->large_len;
	in->large += large;
	in->large_len -= large;
	if (n > large)
		in->large = NULL;	/* and the newline after it */
}

/* SIGPIPE is ignored; EPIPE says that the handler has closed its input. */
bool persistent_input_flush(struct persistent_input *in)
{
	struct iovec parts[] = {
		{ in->out.data == NULL ? NULL : in->out.data + in->at, in->out.len - in->at },
		{ (void *)(uintptr_t)in->large, in->large_len },
		{ (void *)(uintptr_t)"\n", 1 },
	};
	ssize_t n;

	if (in->fd == -1 || persistent_input_pending(in) == 0)
		return in->fd != -1;
	do
		n = writev(in->fd, parts, in->large == NULL ? 1 : 3);
	while (n == -1 && errno == EINTR);
	if (n >= 0)
		written(in, (size_t)n);
	else if (errno != EAGAIN)
		persistent_input_close(in, false);
	return in->fd != -1;
}

void persistent_input_close(struct persistent_input *in, bool all)
{
	int unread = 0;

	if (in->fd == -1)
		return;
	if (!all && ioctl(in->fd, FIONREAD, &unread) == -1)
		unread = 0;
	in->taken = in->total - persistent_input_pending(in) - (uint64_t)unread;
	handler_fd_close(&in->fd);
	buffer_free(&in->out);
	in->at = 0;
	in->large = NULL;
}
