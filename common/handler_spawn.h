#ifndef COMMON_HANDLER_SPAWN_H
#define COMMON_HANDLER_SPAWN_H

#include <sys/types.h>

#include <stdint.h>

#include "common/conf.h"

#define HANDLER_SPAWN_FAILED 127	/* status of a child that wrote to the failure pipe; an executable may use it, too */
#define HANDLER_FD_SAFE 10	/* the child may put something in a lower place */

/* Where it went wrong between fork and exec. */
enum handler_stage {
	HANDLER_STAGE_NONE, HANDLER_STAGE_SETSID, HANDLER_STAGE_DUP, HANDLER_STAGE_OOM_SCORE_ADJ, HANDLER_STAGE_LIMIT_MEMORY,
	HANDLER_STAGE_LIMIT_OPEN_FILES, HANDLER_STAGE_LIMIT_PROCESSES, HANDLER_STAGE_LIMIT_CPU, HANDLER_STAGE_LIMIT_FILE_SIZE,
	HANDLER_STAGE_NICE, HANDLER_STAGE_SETGROUPS, HANDLER_STAGE_SETGID, HANDLER_STAGE_SETUID, HANDLER_STAGE_CHDIR,
	HANDLER_STAGE_NO_NEW_PRIVS, HANDLER_STAGE_PDEATHSIG, HANDLER_STAGE_EXECVE, HANDLER_STAGES
};
extern const char *const handler_stage_names[HANDLER_STAGES];

/* What the child writes to the failure pipe when it does not get as far as the executable. */
struct handler_failure {
	pid_t pid;		/* who says so: one that was given up may say it much later */
	int32_t error;		/* errno; 0: none */
	int32_t stage;
};

/* All that the child needs, prepared: it runs in its parent's memory. */
struct handler_plan {
	const struct conf_queue *conf;
	char *const *argv;
	char *const *envp;
	int stdio[3];		/* become 0-2; all >= 3 */
	int reply_end;		/* becomes conf->reply_fd; >= HANDLER_FD_SAFE; -1: none */
	int failure_fd;		/* write end of the failure pipe, close-on-exec; >= HANDLER_FD_SAFE */
	uint64_t signals;	/* that are to get their default back: process_changed_signals() */
	pid_t parent;
};

/* Returns the pid of the new session's leader, -1: no process was made (errno). */
pid_t handler_spawn(const struct handler_plan *plan);

/* The child's own steps; each 0, or -1 with errno. Async-signal-safe, memory untouched. */
int handler_limit(const struct conf_queue *conf, enum handler_stage *stage);	/* handler_limits.c */
int handler_become(const struct conf_run_as *user, enum handler_stage *stage);	/* handler_user.c */

/* What the child could not do itself, by its parent once it is executed. -1: errno */
int handler_limit_late(const struct conf_queue *conf, pid_t pid);

#endif
