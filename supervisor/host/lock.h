#ifndef SUPERVISOR_HOST_LOCK_H
#define SUPERVISOR_HOST_LOCK_H

#include <sys/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "supervisor/host/lock_text.h"

/*
 * One supervisor for each lock file. The flock belongs to the open file, which master, workers and sweeper share, so it
 * is free only when the last of them has exited.
 */
struct lock {
	int fd;			/* -1: not open */
	bool believed;		/* the text of the file is trusted: no other user could open it */
	struct lock_text text;
	char identity[128];	/* boot id:device:inode:pid namespace. Identifies the lock, also after a restart */
};

void lock_init(struct lock *l);		/* not open */
void lock_close(struct lock *l);	/* in a child that must not hold it */

/* Opens or creates path, and its directory (0755) if only that is missing. Returns -1, with the reason in error. */
int lock_open(struct lock *l, const char *path, char *error, size_t size);

/*
 * 0: this process holds the lock, and has written its pid; 1: another process holds it, *holder is a living quredisd or
 * 0; -1: the reason is in error.
 */
int lock_try(struct lock *l, const char *path, pid_t *holder, char *error, size_t size);

/*
 * Opens the lock file or the pid file, or creates it. Sets mode 0600, also on an existing file; refuses a link, and a
 * file of another user. Returns a descriptor; or -1, with the reason in error.
 */
int lock_file_open(const char *path, char *error, size_t size);

/* False: the path names no file, or another one. Then another supervisor can start with it. */
bool lock_is_at(const struct lock *l, const char *path);

/* As lock_try(), but writes nothing. LOCK_FILE_REPLACED: the path names another file now; open it again. */
#define LOCK_FILE_REPLACED 2
int lock_file_take(int fd, const char *path, pid_t *holder, char *error, size_t size);

#endif
