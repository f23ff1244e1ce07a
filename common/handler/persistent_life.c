/*
 * The end of a persistent handler: timeouts, replacement by age, jobs and memory, orders to exit, and the description
 * of its end. A process that is asked to exit gets EOF and answers its jobs first. A process that has nothing more to
 * answer, or may answer no more, is killed. struct persistent_end describes the end once all processes are gone and all
 * answers were taken.
 */
#include <unistd.h>

#include "common/handler/persistent_state.h"

#include "common/base/base.h"
#include "common/log/log.h"

#define LOOK_MS 1000			/* between checks of memory and the clocks */
#define REAP_MS 100			/* between checks whether a busy handler has died */
#define EXIT_MS 100			/* an exit may take this long, even if kill_grace is shorter */
#define READY_LOOK_MS 100		/* longest pause between two checks whether a new process has begun to read */

/* ---- time ---- */

void persistent_life_begin(struct persistent *p)
{
	struct persistent_life *life = &p->life;

	*life = (struct persistent_life){ .exit_by_ms = INT64_MAX, .looked_ms = p->now_ms, .reaped_ms = p->now_ms,
		.ready_look_ms = p->now_ms, .realtime_ms = clock_realtime_ms() - p->now_ms };
}

void persistent_quiet(struct persistent *p)
{
	p->life.quiet = true;
}

static void terminate(struct persistent *p)
{
	handler_process_terminate(&p->process, p->now_ms);
}

/* Why the process must be replaced; NULL: it need not be. */
static const char *worn_out(struct persistent *p)
{
	if (p->conf->recycle.jobs >= 0 && p->given >= p->conf->recycle.jobs)
		return "jobs";
	if (p->conf->recycle.age_ms >= 0 && p->now_ms - p->process.started_ms >= p->conf->recycle.age_ms)
		return "age";
	if (p->now_ms - p->life.looked_ms < LOOK_MS)
		return NULL;
	p->life.looked_ms = p->now_ms;
	p->life.realtime_ms = clock_realtime_ms() - p->now_ms;
	if (p->conf->recycle.rss < 0 || p->given == p->life.looked_given)
		return NULL;
	p->life.looked_given = p->given;
	return process_resident_bytes(p->process.leader) >= p->conf->recycle.rss ? "rss" : NULL;
}

static void recycle(struct persistent *p)
{
	const char *why = p->life.recycled || p->life.drained ? NULL : worn_out(p);

	if (why == NULL)
		return;
	if (p->kept) {
		if (!p->life.recycle_waits)
			log_info("recycle_waits", log_str("reason", why), log_int("jobs", p->given));
		p->life.recycle_waits = true;
		return;
	}
	log_info("handler_recycled", log_str("reason", why), log_int("jobs", p->given));
	p->life.recycled = true;
}

/* A process that was asked to exit gets EOF: once it has all its jobs, or, if it is replaced, once it has answered
 * them. */
static void close_stdin(struct persistent *p)
{
	if ((p->life.drained && persistent_input_pending(&p->input) == 0) || (p->life.recycled && p->window.n == 0))
		persistent_input_close(&p->input, true);
}

/* True: no more answers can come. It has answered all that it read and can read no more, or it can answer no more. */
static bool is_over(const struct persistent *p)
{
	if (p->replies.fd == -1)
		return true;
	return p->input.fd == -1 && (p->window.n == 0 || persistent_window_at(&p->window, 0)->end > p->input.taken);
}

static void await_exit(struct persistent *p)
{
	int64_t grace = p->conf->kill_grace_ms;

	if (p->life.exit_by_ms == INT64_MAX)
		p->life.exit_by_ms = handler_after(p->now_ms, grace >= 0 && grace < EXIT_MS ? EXIT_MS : grace);
	if (p->now_ms < p->life.exit_by_ms)
		return;
	if (p->window.n > 0)
		persistent_lose_step(p, "it closed its end while jobs were unanswered, and stayed");
	else
		terminate(p);
}

/* Waits one more turn, since the answer may have arrived after the last read. */
static void time_out(struct persistent *p)
{
	if (persistent_oldest_reprieve(p))
		return;
	p->life.timed_out = true;
	p->life.timed_out_serial = persistent_window_at(&p->window, 0)->serial;
	p->life.limit = handler_limit_text(p->conf, p->oldest.since_ms + p->oldest.forgiven_ms,
	    p->oldest.timeout_at_ms);
	terminate(p);
}

/*
 * The kernel reports no event when a process reads from a pipe. So a process that starts up is checked again and again:
 * soon at first, then each time after a quarter of the time that it has taken so far.
 */
static void check_ready(struct persistent *p)
{
	int64_t wait = (p->now_ms - p->process.started_ms) / 4;

	if (p->window.n == 0 || p->now_ms < p->life.ready_look_ms)
		return;
	p->life.has_read = persistent_input_is_read(&p->input);
	p->life.ready_look_ms = p->now_ms + (wait < 1 ? 1 : wait > READY_LOOK_MS ? READY_LOOK_MS : wait);
}

/* When it must be READY; INT64_MAX: it is, or need not say it. */
static int64_t ready_by_ms(const struct persistent *p)
{
	return persistent_loads(p) ? handler_after(p->process.started_ms, p->conf->start_timeout_ms) : INT64_MAX;
}

static void serve(struct persistent *p)
{
	if (p->now_ms >= ready_by_ms(p)) {
		p->life.late = true;
		terminate(p);
		return;
	}
	if (!persistent_ready(p))
		check_ready(p);
	recycle(p);
	close_stdin(p);
	if (is_over(p))
		await_exit(p);
	else if (p->now_ms >= p->oldest.timeout_at_ms)
		time_out(p);
}

/* SIGCHLD stays pending until a poll finds no other event. To check after each event would cost a system call for every
 * message. */
static bool reaping_is_due(struct persistent *p)
{
	bool due = p->life.quiet || p->process.phase != HANDLER_RUNNING || p->replies.fd == -1 || p->input.fd == -1 ||
	    p->now_ms - p->life.reaped_ms >= REAP_MS;

	p->life.quiet = false;
	if (due)
		p->life.reaped_ms = p->now_ms;
	return due;
}

void persistent_tick(struct persistent *p, int64_t now_ms)
{
	persistent_turn(p, now_ms);
	if (reaping_is_due(p)) {
		persistent_show_oldest(p);
		handler_process_tick(&p->process, now_ms);
	}
	if (p->state != ACTIVE)
		return;
	handler_output_credit(&p->output, now_ms);
	if (p->process.phase == HANDLER_GONE) {
		persistent_input_close(&p->input, false);
		persistent_enter(p, LAST_WORDS);
	} else if (p->process.phase == HANDLER_RUNNING) {
		serve(p);
	}
}

void persistent_drain(struct persistent *p, int64_t now_ms)
{
	persistent_turn(p, now_ms);
	if (p->state != ACTIVE || p->process.phase != HANDLER_RUNNING)
		return;
	p->life.drained = true;
	close_stdin(p);
}

void persistent_stop(struct persistent *p, int64_t now_ms)
{
	persistent_turn(p, now_ms);
	if (p->state != ACTIVE || p->process.phase != HANDLER_RUNNING)
		return;
	p->life.stopped = true;
	terminate(p);
}

void persistent_cancel(struct persistent *p, int64_t now_ms)
{
	persistent_turn(p, now_ms);
	if (p->state != ACTIVE || p->process.phase != HANDLER_RUNNING)
		return;
	p->life.cancelled = true;
	terminate(p);
}

void persistent_kill(struct persistent *p)
{
	if (p->process.phase != HANDLER_RUNNING && p->process.phase != HANDLER_TERMINATING)
		return;
	p->life.stopped = !p->life.timed_out && !p->life.cancelled && p->answers.desync == NULL;
	handler_process_force(&p->process, p->now_ms);
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t persistent_deadline_ms(const struct persistent *p)
{
	int64_t at;

	if (p->state == LAST_WORDS || p->state == FINISHED)
		return p->now_ms;
	if (p->state == IDLE || p->process.phase != HANDLER_RUNNING)
		return p->process.due_ms;
	at = is_over(p) ? least(p->life.exit_by_ms, p->now_ms + EXIT_MS) : p->oldest.timeout_at_ms;
	at = least(at, ready_by_ms(p));
	if (!persistent_ready(p) && p->window.n > 0)
		at = least(at, p->life.ready_look_ms);
	if (p->conf->recycle.age_ms >= 0 && !p->life.recycled && !p->life.drained && !p->kept)
		at = least(at, handler_after(p->process.started_ms, p->conf->recycle.age_ms));
	return at;
}

/* ---- end ---- */

static enum persistent_how how_of(const struct persistent *p)
{
	if (p->process.failure.error != 0)
		return PERSISTENT_UNRUNNABLE;
	if (p->answers.desync != NULL)
		return PERSISTENT_DESYNC;
	if (p->life.timed_out)
		return PERSISTENT_TIMED_OUT;
	if (p->life.late)
		return PERSISTENT_LATE;
	if (p->life.cancelled)
		return PERSISTENT_CANCELLED;
	if (p->life.stopped)
		return PERSISTENT_STOPPED;
	return handler_process_code(&p->process) != -1 ? PERSISTENT_EXITED : PERSISTENT_SIGNALED;
}

/*
 * A process that is to be replaced keeps its input while a job is unanswered (close_stdin()). If it dies before that is
 * answered, it was not asked to exit.
 */
static bool is_asked_to_exit(const struct persistent *p)
{
	return p->life.drained || (p->life.recycled && p->window.n == 0);
}

/* How many unanswered jobs it has read anything of: the oldest ones. */
static int count_suspects(const struct persistent *p)
{
	int n = 0;

	while (n < p->window.n && persistent_window_at(&p->window, n)->begin < p->input.taken)
		n++;
	return n;
}

/*
 * The process said so since its last answer, or since it got its oldest job. If it has read other jobs, too, which may
 * have said it, only what the oldest one alone can have said counts.
 */
static const char *last_words(struct persistent *p, int64_t jobs_read, size_t *len)
{
	if (p->window.n > 0 && jobs_read > 1 && p->answers.settled_any)
		return persistent_answers_words(p, 0, len);
	return handler_output_tail_since(&p->output, p->oldest.stderr_mark, len);
}

bool persistent_ended(struct persistent *p, struct persistent_end *out)
{
	const struct handler_process *process = &p->process;
	int suspects = count_suspects(p);

	if (p->state != FINISHED)
		return false;
	*out = (struct persistent_end){
		.how = how_of(p),
		.code = handler_process_code(process),
		.signal = handler_process_signal(process),
		.limit = p->life.limit,
		.desync = p->answers.desync,
		.error = process->failure.error,
		.stage = process->failure.error == 0 ? NULL : handler_stage_names[process->failure.stage],
		.asked = is_asked_to_exit(p),
		.read_any = p->input.taken > 0,
		.answered_any = p->answers.settled_any,
		.loaded = !persistent_loads(p),
		.odd_lines = p->answers.odd_lines,
		.odd_line = p->answers.odd_line,
		.jobs_read = p->given - (p->window.n - suspects),
		.suspects = suspects,
		.unanswered = p->window.n,
		.oldest = p->window.n == 0 ? 0 : persistent_window_at(&p->window, 0)->serial,
		.unread_from = suspects == p->window.n ? UINT64_MAX
		    : persistent_window_at(&p->window, suspects)->serial,
		.duration_ms = p->window.n == 0 ? 0 : p->now_ms - p->oldest.since_ms,
		.lived_ms = process->duration_ms,
	};
	out->stderr_tail = last_words(p, out->jobs_read, &out->stderr_len);
	persistent_window_clear(&p->window);
	persistent_oldest_began(p);
	persistent_enter(p, IDLE);
	return true;
}
