/*
 * Children that make answers. This file starts them, reads their output, and kills those that take too long or write
 * too much. The caller supplies the work, and receives the answer.
 */
#include <sys/prctl.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <event2/event.h>

#include "admin/web/job.h"

#include "common/base/base.h"

#define SAID_MAX (8 * 1024)		/* bytes of standard error; more is read and discarded */

/* ---- the child ---- */

static int put_in_place(int out, int err)
{
	int null = open("/dev/null", O_RDWR);

	return null == -1 || dup2(null, STDIN_FILENO) == -1 || dup2(out, STDOUT_FILENO) == -1 ||
	    dup2(err, STDERR_FILENO) == -1 ? -1 : 0;
}

static _Noreturn void be_child(const struct web_job *job, int out, int err, pid_t parent)
{
	int status;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || put_in_place(out, err) == -1)
		_exit(EX_OSERR);
	process_close_from(STDERR_FILENO + 1);	/* connections of clients, and descriptors of libevent */
	process_reset_signals();
	signal(SIGPIPE, SIG_IGN);
	status = job->work(job->arg);
	if (fflush(stdout) != 0 && status == EX_OK)
		status = EX_IOERR;
	_exit(status);
}

/* ---- its end ---- */

static void stop_listening(struct event **event, int *fd)
{
	if (*event != NULL)
		event_free(*event);
	*event = NULL;
	if (*fd != -1)
		close(*fd);
	*fd = -1;
}

static void job_free(struct web_job *job)
{
	stop_listening(&job->out_event, &job->out);
	stop_listening(&job->err_event, &job->err);
	if (job->clock != NULL)
		event_free(job->clock);
	buffer_free(&job->answer);
	buffer_free(&job->said);
	free(job);
}

static void start_waiting(struct web_jobs *jobs);

/* The child is reaped, so its output is complete. */
static void finish_job(struct web_job *job)
{
	struct web_jobs *jobs = job->jobs;

	TAILQ_REMOVE(&jobs->running, job, entry);
	jobs->nrunning -= !job->extra;
	job->done(job, job->arg);
	job_free(job);
	start_waiting(jobs);
}

/* ---- its output ---- */

static void too_large(struct web_job *job)
{
	job->too_large = true;
	stop_listening(&job->out_event, &job->out);
	if (job->pid != 0)
		kill(job->pid, SIGKILL);
}

static void listen_out(struct web_job *job)
{
	char chunk[64 * 1024];
	ssize_t n;

	while (job->out != -1 && (n = read(job->out, chunk, sizeof(chunk))) != -1) {
		if (n == 0) {
			stop_listening(&job->out_event, &job->out);
			return;
		}
		buffer_append(&job->answer, chunk, (size_t)n);
		if (job->answer.len > job->answer_max)
			too_large(job);
	}
}

static void listen_err(struct web_job *job)
{
	char chunk[4096];
	ssize_t n;

	while (job->err != -1 && (n = read(job->err, chunk, sizeof(chunk))) != -1) {
		if (n == 0) {
			stop_listening(&job->err_event, &job->err);
			return;
		}
		if (job->said.len + (size_t)n <= SAID_MAX)
			buffer_append(&job->said, chunk, (size_t)n);
	}
}

static void on_out(int fd, short what, void *arg)
{
	(void)fd, (void)what;
	listen_out(arg);
}

static void on_err(int fd, short what, void *arg)
{
	(void)fd, (void)what;
	listen_err(arg);
}

static void set_clock(struct web_job *job, int ms)
{
	event_add(job->clock, &(struct timeval){ .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 });
}

/* SIGTERM first, so that an action can stop at a point that it can report. */
static void on_late(int fd, short what, void *arg)
{
	struct web_job *job = arg;

	(void)fd, (void)what;
	kill(job->pid, job->late ? SIGKILL : SIGTERM);
	job->late = true;
	set_clock(job, WEB_JOB_GRACE_MS);
}

static void on_child(int sig, short what, void *arg)
{
	struct web_jobs *jobs = arg;
	struct web_job *job, *next;

	(void)sig, (void)what;
	TAILQ_FOREACH_SAFE(job, &jobs->running, entry, next) {
		if (waitpid(job->pid, &job->status, WNOHANG) != job->pid)
			continue;
		job->pid = 0;
		listen_out(job);
		listen_err(job);
		finish_job(job);
	}
}

/* ---- its start ---- */

static int make_pipes(int out[2], int err[2])
{
	if (pipe2(out, O_CLOEXEC) == -1)
		return -1;
	if (pipe2(err, O_CLOEXEC) == -1) {
		int error = errno;

		close(out[0]);
		close(out[1]);
		errno = error;
		return -1;
	}
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	fcntl(err[0], F_SETFL, O_NONBLOCK);
	return 0;
}

/* Signals are blocked until the child has its own dispositions, so that no handler of libevent runs in it. */
static pid_t fork_job(struct web_job *job, int out, int err)
{
	pid_t parent = getpid(), pid;
	sigset_t all, before;

	fflush(NULL);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid == 0)
		be_child(job, out, err, parent);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return pid;
}

static int start_job(struct web_job *job)
{
	int out[2], err[2], error;

	if (make_pipes(out, err) == -1)
		return -1;
	job->pid = fork_job(job, out[1], err[1]);
	error = errno;
	close(out[1]);
	close(err[1]);
	job->out = out[0];
	job->err = err[0];
	errno = error;
	if (job->pid == -1) {
		job->pid = 0;
		return -1;
	}
	job->out_event = event_new(job->jobs->base, job->out, EV_READ | EV_PERSIST, on_out, job);
	job->err_event = event_new(job->jobs->base, job->err, EV_READ | EV_PERSIST, on_err, job);
	job->clock = evtimer_new(job->jobs->base, on_late, job);
	if (job->out_event == NULL || job->err_event == NULL || job->clock == NULL)
		alloc_failed();
	event_add(job->out_event, NULL);
	event_add(job->err_event, NULL);
	set_clock(job, job->time_ms);
	return 0;
}

static void run_work(struct web_job *job)
{
	struct web_jobs *jobs = job->jobs;

	TAILQ_INSERT_TAIL(&jobs->running, job, entry);
	jobs->nrunning += !job->extra;
	if (start_job(job) == 0)
		return;
	job->unstarted = true;
	buffer_format(&job->said, "fork failed: %s", strerror(errno));
	finish_job(job);
}

static void start_waiting(struct web_jobs *jobs)
{
	struct web_job *job;

	while (jobs->nrunning < WEB_JOBS && (job = TAILQ_FIRST(&jobs->waiting)) != NULL) {
		TAILQ_REMOVE(&jobs->waiting, job, entry);
		jobs->nwaiting--;
		run_work(job);
	}
}

int web_job_start(struct web_jobs *jobs, const struct web_question *q)
{
	struct web_job *job;

	if (!q->extra && jobs->nwaiting >= (q->stranger ? WEB_JOBS_WAITING / 2 : WEB_JOBS_WAITING))
		return -1;
	job = alloc_zero(1, sizeof(*job));
	*job = (struct web_job){ .jobs = jobs, .out = -1, .err = -1, .extra = q->extra, .work = q->work,
		.done = q->done,
		.drop = q->drop, .arg = q->arg, .time_ms = q->time_ms > 0 ? q->time_ms : WEB_JOB_MS,
		.answer_max = q->answer_max > 0 ? q->answer_max : WEB_ANSWER_MAX };
	if (q->extra) {
		run_work(job);
		return 0;
	}
	TAILQ_INSERT_TAIL(&jobs->waiting, job, entry);
	jobs->nwaiting++;
	start_waiting(jobs);
	return 0;
}

int web_job_status(const struct web_job *job)
{
	return !job->unstarted && WIFEXITED(job->status) ? WEXITSTATUS(job->status) : -1;
}

/* ---- all of them ---- */

int web_jobs_init(struct web_jobs *jobs, struct event_base *base)
{
	TAILQ_INIT(&jobs->running);
	TAILQ_INIT(&jobs->waiting);
	jobs->base = base;
	jobs->child = evsignal_new(base, SIGCHLD, on_child, jobs);
	return jobs->child == NULL ? -1 : event_add(jobs->child, NULL);
}

static void drop_job(struct web_job *job)
{
	if (job->drop != NULL)
		job->drop(job->arg);
	job_free(job);
}

void web_jobs_free(struct web_jobs *jobs)
{
	struct web_job *job;

	while ((job = TAILQ_FIRST(&jobs->waiting)) != NULL) {
		TAILQ_REMOVE(&jobs->waiting, job, entry);
		drop_job(job);
	}
	while ((job = TAILQ_FIRST(&jobs->running)) != NULL) {
		TAILQ_REMOVE(&jobs->running, job, entry);
		if (job->pid != 0) {
			kill(job->pid, SIGKILL);
			waitpid(job->pid, NULL, 0);
		}
		drop_job(job);
	}
	if (jobs->child != NULL)
		event_free(jobs->child);
}
