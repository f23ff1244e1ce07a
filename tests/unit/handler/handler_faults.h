#ifndef TESTS_UNIT_HANDLER_FAULTS_H
#define TESTS_UNIT_HANDLER_FAULTS_H

#include <sys/types.h>

#include <stdbool.h>

/*
 * For programs that are linked with
 * -Wl,--wrap=kill,--wrap=process_close_on_exec_from,--wrap=waitid,--wrap=waitpid
 */
extern struct handler_faults {
	bool deaf;		/* SIGKILL changes nothing */
	pid_t group_killed;	/* the last one that was sent SIGKILL as a group */
	int looks_interrupted, reaps_interrupted;	/* so many calls of waitid() and waitpid() are still to be */
	bool old_kernel;	/* before 5.11 */
} handler_faults;

int __real_kill(pid_t pid, int sig);

#endif
