/*
 * Opens the file of a log, so that no other user can read it, write to it or lead it elsewhere. log.c writes to it.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log/target.h"

#include "common/base/base.h"
#include "common/log/log.h"

static struct { bool set; uid_t uid; gid_t gid; } owner;	/* of log_owner() */
static const char *refusal;	/* why the last file could not be opened */

int log_target_above_standard(int fd)
{
	int high;

	if (fd == -1 || fd > STDERR_FILENO)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(fd);
	return high;
}

/*
 * Returns the flaw of a target. Another user may have created a file or a pipe to read the log; the owner of a terminal
 * or of /dev/null does not matter.
 */
static const char *flaw_of(int fd)
{
	const uid_t writer = owner.set ? owner.uid : geteuid();
	struct stat st;

	if (fstat(fd, &st) == -1)
		return strerror(errno);
	if (S_ISCHR(st.st_mode))
		return NULL;
	if (S_ISFIFO(st.st_mode))
		return st.st_uid == 0 || st.st_uid == writer ? NULL : "is a pipe of another user";
	return file_flaw_for(&st, writer);
}

/* Only root can give a file away; a child that has become the owner must find it done. */
static const char *give_to_owner(int fd)
{
	struct stat st;

	if (!owner.set || geteuid() != 0 || fstat(fd, &st) == -1 || !S_ISREG(st.st_mode) ||
	    st.st_uid == owner.uid)
		return NULL;
	return fchown(fd, owner.uid, owner.gid) == 0 ? NULL
	    : "belongs to root, and cannot be given to supervisor.user: chown it";
}

void log_owner(uid_t uid, gid_t gid)
{
	owner.set = true;
	owner.uid = uid;
	owner.gid = gid;
}

static int open_above_standard(const char *path)
{
	return log_target_above_standard(open(path,
	    O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0640));
}

/* As the owner first: a root that may neither pass over modes nor give files away can still log in a directory of that
 * user. */
static int open_for_owner(const char *path)
{
	int fd = -1;

	if (owner.set && geteuid() == 0) {
		privileges_files_as(owner.uid, owner.gid);
		fd = open_above_standard(path);
		privileges_files_as(geteuid(), getegid());
	}
	return fd != -1 ? fd : open_above_standard(path);
}

int log_target_open(const char *path)
{
	char *link;
	int fd;

	if (path[0] != '/') {
		refusal = strerror(errno = EINVAL);
		return -1;
	}
	link = file_link_flaw(path, geteuid());
	fd = link != NULL ? -1 : open_for_owner(path);
	if (link != NULL) {
		free(link);
		errno = EPERM;
		refusal = "leads through a link of another user";
		return -1;
	}
	refusal = fd == -1 ? errno == ELOOP ? "is a link: name the file itself, or \"stderr\"" : strerror(errno)
	    : flaw_of(fd);
	if (fd != -1 && refusal == NULL)
		refusal = give_to_owner(fd);
	if (fd != -1 && refusal != NULL) {
		close(fd);
		fd = -1;
		errno = EPERM;
	}
	return fd;
}

const char *log_open_error(void)
{
	return refusal;
}
