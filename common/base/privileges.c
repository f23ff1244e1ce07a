/*
 * Gives up the rights of root. Raw system calls: what a process of quredis keeps is one word of bits, for which libcap
 * would be a further library.
 */
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <errno.h>
#include <grp.h>
#include <unistd.h>

#include "common/base/privileges.h"

struct capability_words {
	struct __user_cap_header_struct header;
	struct __user_cap_data_struct data[2];	/* the low and the high 32 bits */
};

static int read_capabilities(struct capability_words *w)
{
	*w = (struct capability_words){ .header = { .version = _LINUX_CAPABILITY_VERSION_3 } };
	return (int)syscall(SYS_capget, &w->header, w->data);
}

static uint64_t permitted_bits(const struct capability_words *w)
{
	return w->data[0].permitted | (uint64_t)w->data[1].permitted << 32;
}

static int set_capabilities(uint64_t bits)
{
	struct capability_words w = { .header = { .version = _LINUX_CAPABILITY_VERSION_3 } };

	w.data[0].permitted = w.data[0].effective = (uint32_t)bits;
	w.data[1].permitted = w.data[1].effective = (uint32_t)(bits >> 32);
	return (int)syscall(SYS_capset, &w.header, w.data);
}

/* Without CAP_SETPCAP the set stays as it is: no_new_privs alone then keeps exec from giving more. */
static void limit_bounding_set(uint64_t keep)
{
	for (int c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) != -1; c++)
		if ((keep & PRIVILEGES_BIT(c)) == 0)
			prctl(PR_CAPBSET_DROP, c, 0, 0, 0);
}

static bool is_dropped(const struct privileges *p, uint64_t keep)
{
	struct capability_words w;
	uid_t r, e, s;
	gid_t rg, eg, sg;

	if (getresuid(&r, &e, &s) == -1 || getresgid(&rg, &eg, &sg) == -1 || read_capabilities(&w) == -1)
		return false;
	errno = EPERM;
	return r == p->uid && e == p->uid && s == p->uid && rg == p->gid && eg == p->gid && sg == p->gid &&
	    getgroups(0, NULL) == p->ngroups &&
	    permitted_bits(&w) == keep && (w.data[0].inheritable | w.data[1].inheritable) == 0;
}

const char *privileges_drop(const struct privileges *p)
{
	struct capability_words now;
	uint64_t keep;

	if (read_capabilities(&now) == -1)
		return "capget";
	keep = p->keep & permitted_bits(&now);
	if (p->sealed)
		limit_bounding_set(keep);
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == -1)
		return "keepcaps";
	if (setgroups((size_t)p->ngroups, p->groups) == -1)
		return "setgroups";
	if (setresgid(p->gid, p->gid, p->gid) == -1)
		return "setgid";
	if (setresuid(p->uid, p->uid, p->uid) == -1)
		return "setuid";
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (set_capabilities(keep) == -1 || prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) == -1)
		return "capset";
	if (p->sealed && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1)
		return "no_new_privs";
	return is_dropped(p, keep) ? NULL : "verification";
}

void privileges_files_as(uid_t uid, gid_t gid)
{
	setfsgid(gid);
	setfsuid(uid);
}
