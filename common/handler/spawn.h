#ifndef COMMON_HANDLER_SPAWN_H
#define COMMON_HANDLER_SPAWN_H

#include <sys/types.h>

#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "common/conf/conf.h"

/* exit status of a child that wrote to the failure pipe; an executable may use it, too */
#define HANDLER_SPAWN_FAILED 127
#define HANDLER_FD_SAFE 10	/* the child may use numbers below this for its own descriptors */

/* The step that failed between fork and exec. */
enum handler_stage {
	HANDLER_STAGE_NONE, HANDLER_STAGE_SETSID, HANDLER_STAGE_DUP, HANDLER_STAGE_OOM_SCORE_ADJ,
	    HANDLER_STAGE_LIMIT_MEMORY,
	HANDLER_STAGE_LIMIT_OPEN_FILES, HANDLER_STAGE_LIMIT_PROCESSES, HANDLER_STAGE_LIMIT_CPU,
	    HANDLER_STAGE_LIMIT_FILE_SIZE,
	HANDLER_STAGE_NICE, HANDLER_STAGE_SETGROUPS, HANDLER_STAGE_SETGID, HANDLER_STAGE_SETUID, HANDLER_STAGE_CHDIR,
	HANDLER_STAGE_NO_NEW_PRIVS, HANDLER_STAGE_PDEATHSIG, HANDLER_STAGE_SCRIPT, HANDLER_STAGE_EXECVE,
	    HANDLER_STAGE_INTERPRETER, HANDLER_STAGES
};
extern const char *const handler_stage_names[HANDLER_STAGES];

/* The report that the child writes to the failure pipe if it cannot run the executable. */
struct handler_failure {
	pid_t pid;		/* of the writer, since a child that was given up may write much later */
	int32_t error;		/* errno; 0: no error */
	int32_t stage;
};

/* All that the child needs, prepared by the parent: the child runs in its parent's memory. */
struct handler_plan {
	const struct conf_queue *conf;
	char *const *argv;
	char *const *envp;
	const struct conf_script *script;	/* the handler must have this right to it; NULL: none is known */
	int stdio[3];		/* become 0-2; all >= 3 */
	int reply_end;		/* becomes conf->reply_fd; >= HANDLER_FD_SAFE; -1: none */
	int failure_fd;		/* write end of the failure pipe, close-on-exec; >= HANDLER_FD_SAFE */
	uint64_t signals;	/* whose default must be restored: process_changed_signals() */
	pid_t parent;
};

static inline bool handler_has_reply_fd(const struct conf_queue *conf)
{
	return conf->reply_fd > STDERR_FILENO;
}

/* The pipe for replies. The end of the child has a number that is safe to take. */
int handler_reply_pipe_open(int pair[2]);	/* -1: none is open (errno) */

/* Returns the pid of the leader of the new session; -1: fork failed (errno). */
pid_t handler_spawn(const struct handler_plan *plan);

/* limits.c: applied by the child. Async-signal-safe; changes no memory. -1: errno */
int handler_limit(const struct conf_queue *conf, enum handler_stage *stage);

/* Limits that the child cannot set itself, applied by its parent after exec. -1: errno */
int handler_limit_late(const struct conf_queue *conf, pid_t pid);

/*
 * Both ends of a pipe to or from a handler: [0] is read, [1] written; -1: not open. Close-on-exec. None of them is 0 to
 * 2, where the child puts its own descriptors one by one. ours: the end that is non-blocking; -1: both block.
 */
int handler_pipe_open(int pair[2], int ours);	/* -1: none is open (errno) */
void handler_pipe_close(int pair[2]);		/* closes the open ends; errno is kept */

void handler_fd_close(int *fd);			/* -1: nothing to do; sets it to -1 */
int handler_fd_move(int *fd, int least);	/* to a number >= least, unless it has one. -1: closed (errno) */

#endif
