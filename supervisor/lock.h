#ifndef SUPERVISOR_LOCK_H
#define SUPERVISOR_LOCK_H

#include <sys/types.h>

#include <stddef.h>
#include <stdint.h>

/*
 * One supervisor a lock file. The flock belongs to the open file, which master, workers and sweeper share, so
 * that it is free only when the last of them is gone.
 */
struct lock {
	int fd;			/* -1: not open */
	char identity[128];	/* boot id:device:inode:pid namespace: whose lock it is, also after a restart */
};

/* Opens and creates path, and its directory (0755) if only that is missing. Returns -1 and why in error. */
int lock_open(struct lock *l, const char *path, char *error, size_t size);

/* 0: it is ours and has our pid in it; 1: another holds it, *holder is a living quredisd or 0; -1 and why. */
int lock_try(struct lock *l, const char *path, pid_t *holder, char *error, size_t size);

#endif
