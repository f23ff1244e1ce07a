/* A persistent handler that does what the test says. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/worker/fake_persistent.h"

struct persistent process;

struct persistent *persistent_new(const struct conf_queue *conf)
{
	(void)conf;
	process = (struct persistent){ .room = 2, .ready = true, .timeout_at_ms = INT64_MAX };
	return &process;
}

int persistent_start(struct persistent *p, const char *incarnation, int64_t now_ms)
{
	(void)now_ms;
	assert_non_null(incarnation);
	assert_false(p->running);
	if (p->at_start != NULL)
		p->at_start();
	errno = EAGAIN;
	p->starts++;
	p->running = p->fresh = !p->fork_fails;
	return p->running ? 0 : -1;
}

void persistent_give(struct persistent *p, uint64_t serial, const struct handler_job *job, int64_t now_ms)
{
	(void)now_ms;
	assert_true(p->running && p->room > 0 && job->message != NULL);
	assert_true(p->ngiven == 0 || serial > p->given[p->ngiven - 1]);
	p->given[p->ngiven++] = serial;
	p->fresh = false;
	p->room--;
	p->unanswered++;
}

bool persistent_reply(struct persistent *p, struct handler_reply *out)
{
	if (p->nreplies == 0)
		return false;
	*out = p->replies[0];
	memmove(p->replies, p->replies + 1, sizeof(p->replies[0]) * (size_t)--p->nreplies);
	p->unanswered--;
	p->room++;
	return true;
}

int64_t persistent_strays(struct persistent *p)
{
	int64_t strays = p->strays;

	p->strays = 0;
	return strays;
}

void persistent_describe_silence(const struct persistent_end *e, char *out, size_t size)
{
	snprintf(out, size, "%d odd lines", (int)e->odd_lines);
}

const struct handler_reply *persistent_progress(struct persistent *p)
{
	return p->progress;
}

bool persistent_ended(struct persistent *p, struct persistent_end *out)
{
	bool ended = p->has_ended;

	*out = p->end;
	if (ended)
		p->running = p->has_ended = false, p->unanswered = 0;
	return ended;
}

uint64_t persistent_recall(struct persistent *p)
{
	uint64_t from = p->unwritten_from == 0 ? UINT64_MAX : p->unwritten_from;

	for (; p->ngiven > 0 && p->given[p->ngiven - 1] >= from; p->ngiven--)
		p->unanswered--, p->room++;
	p->unwritten_from = 0;
	return from;
}

/* The rest tells what is set above, or counts. */
#define TELLS(type, function, value) type function(const struct persistent *p) { return value; }
TELLS(bool, persistent_running, p->running)
TELLS(bool, persistent_ready, p->ready)
TELLS(bool, persistent_loads, p->loads)
TELLS(bool, persistent_fresh, p->fresh)
TELLS(int, persistent_room, p->room)
TELLS(int, persistent_unanswered, p->unanswered)
TELLS(bool, persistent_unwritten, p->unwritten_from != 0)
TELLS(pid_t, persistent_pgid, p->running ? 4321 : 0)
TELLS(int64_t, persistent_deadline_ms, p->running ? 77 : 0)
TELLS(int64_t, persistent_timeout_at_ms, p->timeout_at_ms)
#define COUNTS(function, arguments, counts) void function arguments { counts; }
#define IN_TIME (struct persistent *p, __attribute__((unused)) int64_t now_ms)
COUNTS(persistent_free, (__attribute__((unused)) struct persistent *p), )
COUNTS(persistent_flush, (__attribute__((unused)) struct persistent *p), )
COUNTS(persistent_tick, IN_TIME, (void)p)
COUNTS(persistent_drain, IN_TIME, p->drains++)
COUNTS(persistent_keep, (struct persistent *p, bool keep), p->kept = keep)
COUNTS(persistent_stop, IN_TIME, p->stops++)
COUNTS(persistent_cancel, IN_TIME, p->cancels++)
COUNTS(persistent_kill, (struct persistent *p), p->kills++)
COUNTS(persistent_forgive, (struct persistent *p, int64_t ms), p->timeout_at_ms += ms)
COUNTS(persistent_quiet, (struct persistent *p), p->quiets++)
COUNTS(persistent_io, (__attribute__((unused)) struct persistent *p, __attribute__((unused)) const struct pollfd *f,
    __attribute__((unused)) size_t n, __attribute__((unused)) int64_t now_ms), )

size_t persistent_pollfds(const struct persistent *p, struct pollfd *fds)
{
	(void)p, (void)fds;
	return 3;
}

bool persistent_read(struct persistent *p, int64_t now_ms)
{
	(void)now_ms;
	return p->reads > 0 && p->reads-- > 0;
}
