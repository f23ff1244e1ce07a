/*
 * Becoming the handler's user, between fork and exec. Raw system calls: the C library's functions
 * would change every thread of the parent whose memory this runs in, and look for locks. Groups
 * were resolved when the configuration was read.
 */
#include <sys/syscall.h>

#include <errno.h>
#include <unistd.h>

#include "common/handler_spawn.h"

#ifdef SYS_setgroups32		/* 32-bit machines have 16-bit calls under the plain names */
#define CALL_SETGROUPS SYS_setgroups32
#define CALL_SETRESGID SYS_setresgid32
#define CALL_SETRESUID SYS_setresuid32
#else
#define CALL_SETGROUPS SYS_setgroups
#define CALL_SETRESGID SYS_setresgid
#define CALL_SETRESUID SYS_setresuid
#endif

static int verify(const struct conf_run_as *user)
{
	uid_t r, e, s;
	gid_t rg, eg, sg;

	if (getresuid(&r, &e, &s) == -1 || getresgid(&rg, &eg, &sg) == -1)
		return -1;
	errno = EPERM;
	if (r != user->uid || e != user->uid || s != user->uid)
		return -1;
	return rg == user->gid && eg == user->gid && sg == user->gid && getgroups(0, NULL) == user->ngroups ? 0 : -1;
}

int handler_become(const struct conf_run_as *user, enum handler_stage *stage)
{
	*stage = HANDLER_STAGE_SETGROUPS;
	if (syscall(CALL_SETGROUPS, (size_t)user->ngroups, user->groups) == -1)
		return -1;
	*stage = HANDLER_STAGE_SETGID;
	if (syscall(CALL_SETRESGID, user->gid, user->gid, user->gid) == -1)
		return -1;
	*stage = HANDLER_STAGE_SETUID;
	if (syscall(CALL_SETRESUID, user->uid, user->uid, user->uid) == -1)
		return -1;
	return verify(user);
}
