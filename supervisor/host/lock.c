/*
 * The lock file. Its holder is the only supervisor that may use it, and the identity of the file tells a later start
 * which registrations in Redis are of its own dead predecessors. main.c decides how long to wait for the lock.
 */
#include <sys/file.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "supervisor/host/lock.h"

#include "common/base/base.h"
#include "supervisor/host/lock_text.h"

void lock_init(struct lock *l)
{
	*l = (struct lock){ .fd = -1 };
}

void lock_close(struct lock *l)
{
	if (l->fd != -1)
		close(l->fd);
	l->fd = -1;
}

static int file_failed(char *error, size_t size, const char *path, const char *what)
{
	snprintf(error, size, "%s: %s: %s", path, what, strerror(errno));
	return -1;
}

/*
 * flock(2) needs no write permission: any user who can open the file can hold the lock. So the file gets mode 0600. A
 * process that opened an older file before that keeps its descriptor, and can still hold the lock.
 */
static int make_private(int fd, const char *path, bool *was_private, char *error, size_t size)
{
	struct stat st;
	const char *flaw;

	if (fstat(fd, &st) == -1)
		return file_failed(error, size, path, "stat");
	flaw = file_flaw(&st);
	if (flaw != NULL) {
		snprintf(error, size, "%s: %s", path, flaw);
		return -1;
	}
	*was_private = (st.st_mode & 077) == 0;
	if (!*was_private && fchmod(fd, 0600) == -1)
		return file_failed(error, size, path, "others can open it, and its mode cannot be changed");
	return 0;
}

static int open_private(const char *path, bool *was_private, char *error, size_t size)
{
	char *link = file_link_flaw(path, geteuid());
	int fd;

	if (link != NULL) {
		snprintf(error, size, "%s: %s", path, link);
		free(link);
		return -1;
	}
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
	if (fd == -1 && errno == ELOOP) {
		snprintf(error, size, "%s: is a symbolic link, which another user may have put there: remove it, or "
		    "name the file itself in the configuration", path);
		return -1;
	}
	if (fd == -1)
		return file_failed(error, size, path, "cannot be opened");
	if (make_private(fd, path, was_private, error, size) == 0)
		return fd;
	close(fd);
	return -1;
}

int lock_file_open(const char *path, char *error, size_t size)
{
	bool was_private;

	return open_private(path, &was_private, error, size);
}

static int open_with_directory(const char *path, bool *was_private, char *error, size_t size)
{
	char copy[PATH_MAX];

	if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == -1 && errno == ENOENT &&
	    strlcpy(copy, path, sizeof(copy)) < sizeof(copy) && mkdir(dirname(copy), 0755) == -1 && errno != EEXIST)
		return file_failed(error, size, path, "its directory cannot be made");
	return open_private(path, was_private, error, size);
}

/* Leftover processes are found and killed by their pids, so /proc must show the pids of our own namespace. */
static bool proc_is_ours(void)
{
	char self[32];
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);

	if (n == -1)
		return false;
	self[n] = '\0';
	return strtol(self, NULL, 10) == getpid();
}

/*
 * The identity: device and inode differ for any two files of one kernel that exist at the same time. The pid namespace
 * is part of it, because the handlers of a supervisor in another namespace would be invisible, and because some file
 * systems give clones of a file the same numbers. A number can be reused when the object that had it is gone, but then
 * the supervisor with the old identity is gone, too.
 */
static int identify(struct lock *l, const char *path, char *error, size_t size)
{
	struct stat st, pids = {0};
	char boot_id[PROCESS_BOOT_ID_SIZE];

	if (fstat(l->fd, &st) == -1)
		return file_failed(error, size, path, "stat");
	if (process_boot_id(boot_id) == -1)
		return file_failed(error, size, path, "the kernel's boot id cannot be read");
	if (!proc_is_ours()) {
		snprintf(error, size,
		    "/proc belongs to another PID namespace: mount it anew in this one (unshare --mount-proc)");
		return -1;
	}
	stat("/proc/self/ns/pid", &pids);	/* a kernel without namespaces has a single one */
	snprintf(l->identity, sizeof(l->identity), "%s:%jx:%ju:%ju", boot_id, (uintmax_t)st.st_dev,
	    (uintmax_t)st.st_ino, (uintmax_t)pids.st_ino);
	return 0;
}

int lock_open(struct lock *l, const char *path, char *error, size_t size)
{
	const char *fs;

	lock_close(l);
	l->fd = open_with_directory(path, &l->believed, error, size);
	if (l->fd == -1)
		return -1;
	fs = file_network_fs(l->fd);
	if (fs != NULL) {
		snprintf(error, size, "%s: lies on a network file system (%s), where a lock proves nothing; "
		    "set supervisor.lock_file to a local path", path, fs);
		return -1;
	}
	return identify(l, path, error, size);
}

/* A zombie holds no lock, and the pid may belong to another program by now. */
static bool is_quredisd(pid_t pid)
{
	char path[64], line[256], *name, state;
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (f == NULL)
		return false;
	if (fgets(line, sizeof(line), f) != NULL && (name = strrchr(line, ')')) != NULL) {
		*name = '\0';
		state = name[1] == '\0' ? '\0' : name[2];
		name = strchr(line, '(');
		found = name != NULL && strcmp(name + 1, "quredisd") == 0 && state != 'Z' && state != 'X';
	}
	fclose(f);
	return found;
}

static pid_t read_holder(int fd)
{
	char text[32] = "";
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	long pid = n > 0 ? strtol(text, NULL, 10) : 0;

	/* our own pid in the file is from another namespace, or from before a reboot */
	return pid > 0 && pid <= INT_MAX && pid != getpid() && is_quredisd((pid_t)pid) ? (pid_t)pid : 0;
}

/*
 * True: the path still names this file. If it was removed or replaced between open and flock, another supervisor can
 * lock the new file, and this lock is worthless.
 */
static bool is_at(int fd, const char *path)
{
	struct stat ours, there;

	return fstat(fd, &ours) == 0 && stat(path, &there) == 0 && ours.st_dev == there.st_dev &&
	    ours.st_ino == there.st_ino;
}

bool lock_is_at(const struct lock *l, const char *path)
{
	return is_at(l->fd, path);
}

int lock_file_take(int fd, const char *path, pid_t *holder, char *error, size_t size)
{
	*holder = 0;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return is_at(fd, path) ? 0 : LOCK_FILE_REPLACED;
	if (errno != EWOULDBLOCK && errno != EINTR)
		return file_failed(error, size, path, "cannot be locked");
	*holder = read_holder(fd);
	return 1;
}

int lock_try(struct lock *l, const char *path, pid_t *holder, char *error, size_t size)
{
	int r;

	while ((r = lock_file_take(l->fd, path, holder, error, size)) == LOCK_FILE_REPLACED)
		if (lock_open(l, path, error, size) == -1)
			return -1;
	return r == 0 && lock_text_take_over(l) == -1 ? file_failed(error, size, path, "cannot be written") : r;
}
