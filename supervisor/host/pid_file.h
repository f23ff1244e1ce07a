#ifndef SUPERVISOR_HOST_PID_FILE_H
#define SUPERVISOR_HOST_PID_FILE_H

#include <sys/types.h>

#include <stddef.h>

/* A file with the master's pid. Only the master keeps it locked, and removes it when it exits. */
struct pid_file {
	int fd;			/* -1: no pid file */
	char *path;		/* owned */
};

void pid_file_init(struct pid_file *p);		/* there is none yet */

/* 0: written; 1: another process has locked it, *holder is a living quredisd or 0; -1: the reason is in error. */
int pid_file_open(struct pid_file *p, const char *path, pid_t *holder, char *error, size_t size);

void pid_file_close(struct pid_file *p);	/* in a child; the file stays */
void pid_file_remove(struct pid_file *p);

#endif
