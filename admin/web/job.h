#ifndef ADMIN_WEB_JOB_H
#define ADMIN_WEB_JOB_H

#include <sys/types.h>

#include <stdbool.h>

#include <bsd/sys/queue.h>

#include "common/base/base.h"

struct event;
struct event_base;

/*
 * A job is a forked child that makes one answer. Its work() writes the answer to standard output and errors to standard
 * error, and returns an exit status (sysexits). After WEB_JOB_MS it gets SIGTERM, then SIGKILL. At most WEB_JOBS run at
 * a time; others wait.
 */
#define WEB_JOBS 8
#define WEB_JOBS_WAITING 64
#define WEB_JOB_MS 10000
#define WEB_JOB_GRACE_MS 1000
#define WEB_ANSWER_MAX (16 * 1024 * 1024)

struct web_job {
	TAILQ_ENTRY(web_job) entry;
	struct web_jobs *jobs;
	pid_t pid;			/* 0: not yet started, or reaped */
	int out, err;			/* -1: closed */
	struct event *out_event, *err_event, *clock;
	struct buffer answer, said;
	int status;			/* of waitpid */
	bool unstarted;			/* fork failed */
	bool late, too_large;		/* why it was killed */
	bool extra;			/* of the server itself; not counted in WEB_JOBS */
	int time_ms;
	size_t answer_max;
	int (*work)(void *arg);		/* in the child */
	void (*done)(const struct web_job *job, void *arg);	/* in the server; takes arg back */
	void (*drop)(void *arg);
	void *arg;
};

struct web_jobs {
	struct event_base *base;
	struct event *child;		/* SIGCHLD */
	TAILQ_HEAD(, web_job) running, waiting;
	int nrunning, nwaiting;		/* nrunning: without the extra ones */
};

int web_jobs_init(struct web_jobs *jobs, struct event_base *base);	/* -1: libevent failed */
/* Kills all, and calls drop instead of done. */
void web_jobs_free(struct web_jobs *jobs);

struct web_question {
	int (*work)(void *arg);
	void (*done)(const struct web_job *job, void *arg);
	void (*drop)(void *arg);	/* called instead of done if the server ends first; NULL: nothing to free */
	void *arg;
	int time_ms;			/* 0: WEB_JOB_MS */
	size_t answer_max;		/* bytes; 0: WEB_ANSWER_MAX */
	bool extra;
	/* the client has neither token nor session: half of the places in the queue are not for strangers */
	bool stranger;
};
/* Calls done or drop once, later. -1: too many jobs are waiting, and neither is called. */
int web_job_start(struct web_jobs *jobs, const struct web_question *q);

/* The exit status; -1: it has none. */
int web_job_status(const struct web_job *job);

#endif
