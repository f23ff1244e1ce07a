/* links: tests/fuzz/input.c tests/fuzz/fake_time.c tests/fuzz/fake_process.c tests/fuzz/conf_text.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf */
/*
 * A handler that stays and may do anything with its pipes. Whatever it says, each job is answered once or is
 * unanswered at the end; nothing but a line with the token of a job is an
 * answer, so an echo of its messages settles nothing; frames are what was given; and what it is
 * said not to have read it has not read.
 */
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "tests/fuzz/input.h"

#include "common/base/alloc.h"
#include "common/base/clock.h"
#include "common/log/log.h"
#include "common/base/nitems.h"
#include "tests/fuzz/conf_text.h"
#include "tests/fuzz/fake_process.h"
#include "tests/fuzz/fake_time.h"
#include "common/handler/persistent.h"
#include "common/handler/lines.h"

#define JOBS_MAX 300		/* in one input */
#define STEPS_MAX 4000
#define LAST_STEPS 400		/* to come to an end in */
#define LARGE_MAX 2		/* messages that are not copied */

static const char conf_file[] =
    "queues = ("
    " { name = \"one\"; handler = [\"/bin/true\"]; mode = \"persistent\"; kill_grace = \"0s\"; },"
    " { name = \"few\"; handler = [\"/bin/true\"]; mode = \"persistent\"; window = 4; reply_fd = 5; max_duration = \"3s\"; kill_grace = \"2s\"; },"
    " { name = \"many\"; handler = [\"/bin/true\"]; mode = \"persistent\"; window = 64; recycle = { jobs = 90; rss = \"1G\"; age = \"1m\"; };"
    " emit = { queues = [\"one\"]; max = 2; max_bytes = \"1K\"; }; } );";

struct job {
	struct message message;		/* raw is owned */
	char *given;			/* a copy of raw, which lives as long as it must; owned */
	bool unanswered;
	char token[HANDLER_TOKEN_LEN];	/* once the handler has read it */
};

struct run {
	struct input *in;
	const struct conf_queue *conf;
	struct persistent *p;
	struct job jobs[JOBS_MAX];	/* by serial - 1 */
	uint64_t given;			/* the last serial */
	uint64_t first;			/* the first of this process */
	int answered, unanswered;
	int large;
	bool told_to_go;		/* or may have been, by recycle */
	bool closed_input;
};

static struct conf *conf;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	signal(SIGPIPE, SIG_IGN);
	conf = conf_text_load(conf_file);
	FUZZ_ASSERT(log_open(FUZZ_LOG, LOG_FORMAT_JSON, LOG_LEVEL_DEBUG) == 0);
	return 0;
}

/* ---- jobs ---- */

static char *any_message(struct run *run, size_t *len)
{
	static const char header[] = "quredis/1 id=job-1 request_id=r timeout=5s max_attempts=3\n";
	unsigned kind = input_below(run->in, 8);
	const char *bytes = input_bytes(run->in, len);
	char *raw;

	if (kind == 7 && run->large++ < LARGE_MAX)
		return alloc_zero(*len = 70000 + *len * 300, 1);
	if (kind != 6)
		return alloc_copy(bytes, *len);
	raw = alloc_zero(*len + sizeof(header), 1);
	memcpy(raw, header, sizeof(header) - 1);
	memcpy(raw + sizeof(header) - 1, bytes, *len);
	*len += sizeof(header) - 1;
	return raw;
}

static void give(struct run *run)
{
	struct handler_job job = { .attempt = 1 + (int)input_below(run->in, 3), .max_attempts = 3, .redelivered = input_byte(run->in) & 1,
		.timeout_ms = input_time_ms(run->in) - 1, .incarnation = "n.0000000000000001.1.1" };
	struct message message;
	size_t len;
	char *raw;

	if (!persistent_running(run->p)) {
		if (persistent_start(run->p, "n.0000000000000001.1.1", clock_monotonic_ms()) == -1)
			return;
		run->first = run->given + 1;
		run->told_to_go = run->closed_input = false;
	}
	if (persistent_room(run->p) <= 0 || run->given == JOBS_MAX)
		return;
	raw = any_message(run, &len);
	struct job *j = &run->jobs[run->given++];
	const struct message_keys keys = { .queue = "ingress:mail", .secrets = seal_known(), .headers = true };

	*j = (struct job){ .unanswered = true, .given = alloc_copy(raw, len) };
	message_parse(&j->message, &keys, raw, len);
	message_parse(&message, &keys, j->given, len);
	job.message = &message;
	run->unanswered++;
	persistent_give(run->p, run->given, &job, clock_monotonic_ms());
}

/* Its owner may forget the message now. */
static void settle(struct run *run, struct job *j)
{
	j->unanswered = false;
	run->unanswered--;
	free(j->given);
	j->given = NULL;
}

/* ---- what the handler has read ---- */

static const char *number_behind(const char *at, const char *end, uint64_t *n)
{
	*n = 0;
	FUZZ_ASSERT(at < end && *at == ' ');
	for (at++; at < end && *at >= '0' && *at <= '9'; at++)
		*n = *n * 10 + (uint64_t)(*at - '0');
	return at;
}

/* The serial of the last frame of which it has read anything; all before it are whole, and what was given. */
static uint64_t last_begun(struct run *run)
{
	const struct buffer *b = &fake_process_look()->frames;
	const char *at = b->data, *end = at + b->len;
	uint64_t expected = run->first;

	for (; at < end; expected++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		uint64_t attempt, bytes;
		const struct message *m = &run->jobs[expected - 1].message;

		FUZZ_ASSERT(expected <= run->given);
		if (newline == NULL)
			return expected;
		FUZZ_ASSERT(newline - at > 4 + HANDLER_TOKEN_LEN && memcmp(at, "JOB ", 4) == 0);
		memcpy(run->jobs[expected - 1].token, at + 4, HANDLER_TOKEN_LEN);
		number_behind(number_behind(at + 4 + HANDLER_TOKEN_LEN, newline, &attempt), newline, &bytes);
		FUZZ_ASSERT(attempt >= 1 && bytes == message_payload_len(m));
		at = newline + 1;
		if ((uint64_t)(end - at) <= bytes)
			return expected;
		FUZZ_ASSERT(bytes == 0 || memcmp(at, message_payload(m), bytes) == 0);
		FUZZ_ASSERT(at[bytes] == '\n');
		at += bytes + 1;
	}
	return expected - 1;
}

/* ---- what it has said ---- */

static bool says(const char *line, size_t len, const struct handler_reply *r, const char *token)
{
	static const char *const words[] = { "OK ", "RETRY ", "FAIL ", "REJECT " };
	size_t word = strlen(words[r->verb]), at = word + HANDLER_TOKEN_LEN;

	if (r->reason_len > 12 && (memcmp(r->reason, "unknown verb", 12) == 0 ||
	    memcmp(r->reason, "EMIT: this queue", 12) == 0))	/* made of a line on the reply_fd */
		return memmem(line, len, token, HANDLER_TOKEN_LEN) != NULL;
	if (len < at || memcmp(line, words[r->verb], word) != 0 || memcmp(line + word, token, HANDLER_TOKEN_LEN) != 0)
		return false;
	if (r->verb == VERB_OK)
		while (at < len && (line[at] == ' ' || line[at] == '\r'))
			at++;
	return r->verb != VERB_OK || at == len;
}

static bool was_said(struct run *run, const struct handler_reply *r)
{
	const struct buffer *b = &fake_process_look()->said;
	const char *at = b->data, *end = at + b->len;

	last_begun(run);
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)((newline == NULL ? end : newline) - at);

		if ((newline != NULL || len >= HANDLER_LINES_SIZE) && says(at, len, r, run->jobs[r->serial - 1].token))
			return true;
		at += len + 1;
	}
	return false;
}

static void take_replies(struct run *run)
{
	struct handler_reply r;

	const struct handler_reply *progress;

	while (persistent_reply(run->p, &r)) {
		FUZZ_ASSERT(handler_verb_is_verdict(r.verb) && r.serial >= run->first && r.serial <= run->given);
		FUZZ_ASSERT(run->jobs[r.serial - 1].unanswered && was_said(run, &r));
		FUZZ_ASSERT(r.duration_ms >= 0 && (r.stderr_len == 0 || r.stderr_tail != NULL) &&
		    (int64_t)r.stderr_len <= run->conf->stderr_tail);
		FUZZ_ASSERT(r.emitted == NULL || (r.verb == VERB_OK && r.emitted->n <= 2 && r.emitted->bytes.len <= 1024));
		FUZZ_ASSERT(r.emitted == NULL || (r.emitted->n == 0) == (r.emitted->refused[0] != '\0'));
		settle(run, &run->jobs[r.serial - 1]);
		run->answered++;
	}
	FUZZ_ASSERT(persistent_unanswered(run->p) == run->unanswered);
	progress = persistent_progress(run->p);
	FUZZ_ASSERT(progress == NULL || (progress->percent <= 100 && progress->reason_len <= HANDLER_REASON_SHOWN &&
	    progress->serial >= run->first && progress->serial <= run->given));
}

/* ---- its end ---- */

static void take_end(struct run *run)
{
	struct persistent_end e;
	uint64_t begun, oldest = 0;

	if (!persistent_ended(run->p, &e))
		return;
	begun = last_begun(run);
	FUZZ_ASSERT(e.unanswered == run->unanswered);
	for (uint64_t serial = run->first; serial <= run->given; serial++) {
		struct job *j = &run->jobs[serial - 1];

		if (!j->unanswered)
			continue;
		if (oldest == 0)
			oldest = serial;
		/* One it may have begun is never given back as if it had not. */
		FUZZ_ASSERT(serial > begun || serial < e.unread_from);
		if (!run->told_to_go && !run->closed_input && !e.asked)
			FUZZ_ASSERT(serial <= begun || serial >= e.unread_from);
		settle(run, j);
	}
	FUZZ_ASSERT(run->unanswered == 0 && e.oldest == oldest);
	FUZZ_ASSERT(e.lived_ms >= 0 && e.duration_ms >= 0 && (e.error != 0) == (e.how == PERSISTENT_UNRUNNABLE));
	FUZZ_ASSERT(!persistent_running(run->p) && persistent_unanswered(run->p) == 0 && persistent_pgid(run->p) == 0);
}

/* ---- a turn of its owner's loop ---- */

static void turn(struct run *run)
{
	struct pollfd fds[PERSISTENT_POLLFDS];
	size_t n;

	if (!persistent_running(run->p))
		return;
	n = persistent_pollfds(run->p, fds);
	FUZZ_ASSERT(n <= nitems(fds));
	if (poll(fds, n, 0) <= 0)
		persistent_quiet(run->p);
	persistent_io(run->p, fds, n, clock_monotonic_ms());
	take_replies(run);
	persistent_tick(run->p, clock_monotonic_ms());
	take_end(run);
	if (!persistent_running(run->p))
		return;
	last_begun(run);
	FUZZ_ASSERT(persistent_room(run->p) <= run->conf->window - run->unanswered);
	FUZZ_ASSERT(persistent_unanswered(run->p) == 0 || persistent_deadline_ms(run->p) > 0);
	if (fake_process_look()->in == -1)
		run->closed_input = true;
}

static void step(struct run *run)
{
	switch (input_below(run->in, 16)) {
	case 0:
	case 1:
	case 2:
		give(run);
		break;
	case 3:
	case 4:
		if (persistent_running(run->p))
			persistent_flush(run->p);
		break;
	case 5:
		fake_time_pass_ms(input_time_ms(run->in));
		break;
	case 6:
		run->told_to_go = true;
		persistent_drain(run->p, clock_monotonic_ms());
		break;
	case 7:
		persistent_stop(run->p, clock_monotonic_ms());
		break;
	case 8:
		if (input_byte(run->in) > 200)
			persistent_kill(run->p);
		break;
	case 9:
	case 10:
		turn(run);
		break;
	default:
		fake_process_act(run->in);
		break;
	}
}

static void come_to_an_end(struct run *run)
{
	for (int i = 0; persistent_running(run->p); i++) {
		FUZZ_ASSERT(i < LAST_STEPS);
		if (i == 1)
			persistent_stop(run->p, clock_monotonic_ms());
		if (i == LAST_STEPS / 2)
			persistent_kill(run->p);
		fake_time_pass_ms(100);
		fake_process_act(run->in);	/* zeros: it goes on answering */
		turn(run);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct run run;
	struct input in = { data, size };
	uint8_t which = input_byte(&in);

	fake_time_begin();
	fake_process_begin();
	run = (struct run){ .in = &in, .conf = conf->queues[which % conf->nqueues] };
	run.p = persistent_new(run.conf);
	for (int i = 0; i < STEPS_MAX && in.left > 0; i++)
		step(&run);
	in.left = 0;
	come_to_an_end(&run);
	persistent_free(run.p);
	fake_process_finish();
	for (uint64_t i = 0; i < run.given; i++)
		free((void *)(uintptr_t)run.jobs[i].message.raw);
	return 0;
}
