#ifndef COMMON_BASE_LEFTOVERS_H
#define COMMON_BASE_LEFTOVERS_H

#include <sys/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Processes that the handlers of a dead supervisor left behind. Two things identify them:
 *
 *	the boot token	in the environment of every handler: a hash of the lock file's key and of the boot. It
 *			cannot be computed without the key, which only the supervisor's
 *			user can read, and is published nowhere.
 *	the cgroup	of that boot, where one could be made (common/base/cgroup.h): it also holds processes that
 *			cleared their environment or changed their user.
 *
 * The environment counts only for users that a handler can have. Other users' processes are never touched.
 */
#define LEFTOVERS_KEY_SIZE 32
#define LEFTOVERS_TOKEN_SIZE 33			/* 128 bits in hex, and the NUL */
#define LEFTOVERS_TOKEN_NAME "QUREDIS_BOOT_TOKEN"	/* in the environment */
#define LEFTOVERS_LISTED 64

struct leftovers_users {
	uid_t *uid;
	size_t n;
};

/* A process that SIGKILL did not end. */
struct leftover {
	pid_t pid;
	uid_t uid;
	int error;		/* errno of the signal; 0: it was sent */
};

/* A token to look for, and the result. */
struct leftovers {
	char token[LEFTOVERS_TOKEN_SIZE];	/* set by the caller; leftovers_kill() sets the rest */
	size_t killed;		/* processes that ended */
	size_t alive;		/* found by the last scan, and did not end */
	bool breeding;		/* scans found new processes until the time was over */
	/* errno of a process that the last scan could not read: it may be one of these; 0: none */
	int error;
	size_t ended;		/* of the last scan */
	unsigned quiet;		/* complete scans in a row that found none */
	struct leftover listed[LEFTOVERS_LISTED];	/* the first of `alive` */
	size_t nlisted;
};

void leftovers_token(const unsigned char key[LEFTOVERS_KEY_SIZE], uint64_t boot, char out[LEFTOVERS_TOKEN_SIZE]);

void leftovers_users_add(struct leftovers_users *users, uid_t uid);	/* no duplicates */
void leftovers_users_free(struct leftovers_users *users);
bool leftovers_users_have(const struct leftovers_users *users, uid_t uid);

/*
 * Kills processes that have one of these tokens in their environment and one of these real user ids, and waits for
 * their end. Each scan of /proc is for all tokens together. Scans are repeated until two in a row have found no process
 * of a token, since a process that forks while /proc is read can escape one. Returns -1 if processes of any token are
 * left after timeout_ms, or may be left, because /proc could not be read; alive and listed say how many and which,
 * error says why not.
 */
int leftovers_kill(struct leftovers *of, size_t n, const struct leftovers_users *users, int64_t timeout_ms);

#endif
