#ifndef SUPERVISOR_HOST_LOCK_TEXT_H
#define SUPERVISOR_HOST_LOCK_TEXT_H

#include <sys/types.h>

#include "common/base/base.h"

struct lock;

/*
 * The lock file contains the pid of its holder, and the data by which the next start recognises leftover handlers: a
 * key, which is made once and stays as long as the file, and every user that a handler ever had:
 *
 *	1234
 *	key 64 hex digits
 *	users 0 33 1000
 *
 * The master writes the file in place, since the inode is part of the identity of the lock. No line ever becomes
 * shorter, so an interrupted write destroys nothing.
 */
struct lock_text {		/* valid once the lock is held */
	unsigned char key[LEFTOVERS_KEY_SIZE];
	struct leftovers_users users;
};

int lock_text_take_over(struct lock *l);		/* call it once the lock is held. -1: errno */
int lock_text_add_user(struct lock *l, uid_t uid);	/* before a handler with this user starts. -1: errno */
void lock_text_forget_key(struct lock_text *t);		/* in a child that must not recognise leftovers */
void lock_text_free(struct lock_text *t);

#endif
