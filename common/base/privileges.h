#ifndef COMMON_BASE_PRIVILEGES_H
#define COMMON_BASE_PRIVILEGES_H

#include <sys/types.h>

#include <linux/capability.h>

#include <stdbool.h>
#include <stdint.h>

#define PRIVILEGES_BIT(capability) (UINT64_C(1) << (capability))

struct privileges {
	uid_t uid;
	gid_t gid;
	const gid_t *groups;
	int ngroups;
	uint64_t keep;		/* capabilities that stay; those that the process does not have are ignored */
	/* no exec gives more than that: no_new_privs, and an empty bounding set but for `keep` */
	bool sealed;
};

/*
 * Gives up, for good, the user and every capability of this process but `keep`, and verifies it. Inheritable and
 * ambient capabilities are gone, so exec as another user than root leaves none. The process must have one thread.
 * Returns the step that failed, with errno; NULL: done.
 */
const char *privileges_drop(const struct privileges *p);

/*
 * The kernel judges each open(2) and mkdir(2) of this process as if it were of this user, and gives it what they
 * create. A root without CAP_DAC_OVERRIDE and CAP_CHOWN, as in a unit of systemd, needs that in a directory of another
 * user. Back with geteuid() and getegid().
 */
void privileges_files_as(uid_t uid, gid_t gid);

#endif
