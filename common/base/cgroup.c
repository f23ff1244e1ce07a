/*
 * The control group of a supervisor's boot: creates and enters it, finds the groups of dead boots, kills the processes
 * in them, and removes them. Its name is a hash of the boot token, and its supervisor holds a lock on it. A group
 * without a lock belongs to a dead supervisor.
 */
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <mntent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>
#include <nettle/sha2.h>

#include "common/base/cgroup.h"
#include "common/base/clock.h"
#include "common/base/process.h"

#define PREFIX "quredis-"
#define DEPTH_MAX 32
#define LOOK_MS 10

/* Every user can read the name of a group; the hash does not reveal the token. */
void cgroup_name(const char *token, char out[CGROUP_NAME_SIZE])
{
	struct sha256_ctx sha;
	uint8_t digest[SHA256_DIGEST_SIZE];
	uint64_t number;

	sha256_init(&sha);
	sha256_update(&sha, strlen(token), (const uint8_t *)token);
	sha256_digest(&sha, sizeof(digest), digest);
	memcpy(&number, digest, sizeof(number));
	snprintf(out, CGROUP_NAME_SIZE, PREFIX "%016" PRIx64, number);
}

/* ---- the place of the groups ---- */

static int mount_point(char out[PATH_MAX])
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	struct mntent *m;
	int rc = -1;

	if (f == NULL)
		return -1;
	while (rc == -1 && (m = getmntent(f)) != NULL)
		if (strcmp(m->mnt_type, "cgroup2") == 0)
			rc = strlcpy(out, m->mnt_dir, PATH_MAX) < PATH_MAX ? 0 : -1;
	endmntent(f);
	if (rc == -1)
		errno = ENOENT;
	return rc;
}

/* The group of this process, below the mount point: "/" or "/a/b". */
static int own_path(char out[PATH_MAX])
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX];
	int rc = -1;

	if (f == NULL)
		return -1;
	while (rc == -1 && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, "0::/", 4) == 0) {
			line[strcspn(line, "\n")] = '\0';
			strlcpy(out, line + 3, PATH_MAX);
			rc = 0;
		}
	fclose(f);
	if (rc == -1)
		errno = ENOENT;
	return rc;
}

static int open_directory(int at, const char *name)
{
	return openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static int open_base(void)
{
	char path[2 * PATH_MAX], mount[PATH_MAX], own[PATH_MAX];

	if (mount_point(mount) == -1 || own_path(own) == -1)
		return -1;
	snprintf(path, sizeof(path), "%s%s", mount, own);
	return open_directory(AT_FDCWD, path);
}

/* Returns the next directory below; "": there is none, or errno is not 0. */
static const char *next_below(DIR *dir)
{
	struct dirent *e;

	while (errno = 0, (e = readdir(dir)) != NULL)
		if (e->d_type == DT_DIR && e->d_name[0] != '.')
			return e->d_name;
	return "";
}

static DIR *open_list(int dir)
{
	int copy = open_directory(dir, ".");
	DIR *d = copy == -1 ? NULL : fdopendir(copy);

	if (d == NULL && copy != -1)
		close(copy);
	return d;
}

static bool is_own(int dir)
{
	struct stat st;

	return fstat(dir, &st) == 0 && st.st_uid == geteuid();
}

/* ---- creating ---- */

/* Removes empty groups of dead supervisors. The kernel refuses to remove a group in use, and the lock is free only when
 * its supervisor is gone. */
static void remove_stale(int base)
{
	DIR *d = open_list(base);
	const char *name;

	while (d != NULL && (name = next_below(d))[0] != '\0') {
		int dir = strncmp(name, PREFIX, strlen(PREFIX)) == 0 ? open_directory(base, name) : -1;

		if (dir == -1)
			continue;
		if (is_own(dir) && flock(dir, LOCK_EX | LOCK_NB) == 0)
			unlinkat(base, name, AT_REMOVEDIR);
		close(dir);
	}
	if (d != NULL)
		closedir(d);
}

/* Another supervisor that starts may remove the new group as stale before it is locked: then errno is EAGAIN. */
static int make_group(int base, const char *name)
{
	struct stat st;
	int dir;

	/* 0700: a user who can open the directory could hold its lock, and so protect leftovers in it. */
	if (mkdirat(base, name, 0700) == -1 || (dir = open_directory(base, name)) == -1)
		return -1;
	if (flock(dir, LOCK_SH | LOCK_NB) == 0 && fstatat(dir, "cgroup.procs", &st, 0) == 0)
		return dir;
	close(dir);
	errno = EAGAIN;
	return -1;
}

int cgroup_make(const char *name)
{
	int base = open_base(), dir, error;

	if (base == -1)
		return -1;
	remove_stale(base);
	dir = make_group(base, name);
	error = errno;
	close(base);
	errno = error;
	return dir;
}

static int write_file(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CLOEXEC), error;
	bool ok;

	if (fd == -1)
		return -1;
	ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	error = errno;
	close(fd);
	errno = error;
	return ok ? 0 : -1;
}

int cgroup_enter(int dir)
{
	return write_file(dir, "cgroup.procs", "0");
}

void cgroup_remove(int dir, const char *name)
{
	int base = open_directory(dir, "..");

	if (base != -1) {
		unlinkat(base, name, AT_REMOVEDIR);
		close(base);
	}
	close(dir);
}

/* ---- killing ---- */

static struct cgroup_dead *find_wanted(struct cgroup_dead *of, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (of[i].dir == -1 && strcmp(of[i].name, name) == 0)
			return &of[i];
	return NULL;
}

/* False: for want of descriptors or memory, groups may have been overlooked. */
static bool find_below(int at, struct cgroup_dead *of, size_t n, int depth)
{
	DIR *d = open_list(at);
	bool whole = d != NULL || !process_error_is_shortage(errno);
	const char *name;

	while (d != NULL && (name = next_below(d))[0] != '\0') {
		struct cgroup_dead *g = find_wanted(of, n, name);
		int dir = open_directory(at, name);
		bool wanted;

		if (dir == -1) {
			whole = whole && !process_error_is_shortage(errno);
			continue;
		}
		wanted = g != NULL && is_own(dir);
		if (wanted)
			g->dir = dir;		/* before what is below it, which may have the same name */
		if (depth > 0 && !find_below(dir, of, n, depth - 1))
			whole = false;
		if (!wanted)
			close(dir);
	}
	if (d != NULL) {
		whole = whole && !process_error_is_shortage(errno);	/* of the last next_below() */
		closedir(d);
	}
	return whole;
}

static bool find_groups(struct cgroup_dead *of, size_t n)
{
	char mount[PATH_MAX];
	int root = mount_point(mount) == -1 ? -1 : open_directory(AT_FDCWD, mount);
	bool whole;

	if (root == -1)
		return !process_error_is_shortage(errno);
	whole = find_below(root, of, n, DEPTH_MAX);
	close(root);
	return whole;
}

/* A pid can be reused before the kill. So a process is killed only if it is in the group while a pidfd holds it. */
static bool is_inside(pid_t pid, const char *name)
{
	char path[64], line[PATH_MAX], *at = NULL;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	f = fopen(path, "re");
	if (f == NULL)
		return false;
	while (at == NULL && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, "0::/", 4) == 0)
			at = strstr(line, name);
	fclose(f);
	return at != NULL && at[-1] == '/' && (at[strlen(name)] == '\n' || at[strlen(name)] == '/');
}

static void kill_one(pid_t pid, const char *name)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0u);

	if (fd == -1)
		return;
	if (is_inside(pid, name))
		syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0u);
	close(fd);
}

/* Counts the processes of the group and of all groups below it. kill: each gets SIGKILL (kernels before 5.14 have no
 * cgroup.kill). */
static size_t count_processes(int dir, const char *name, bool kill, int depth)
{
	int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	FILE *f = fd == -1 ? NULL : fdopen(fd, "r");
	const char *below;
	size_t n = 0;
	int pid;
	DIR *d;

	for (; f != NULL && fscanf(f, "%d", &pid) == 1; n++)
		if (kill)
			kill_one((pid_t)pid, name);
	if (f != NULL)
		fclose(f);
	else if (fd != -1)
		close(fd);
	d = depth == 0 ? NULL : open_list(dir);
	while (d != NULL && (below = next_below(d))[0] != '\0') {
		int inner = open_directory(dir, below);

		if (inner != -1) {
			n += count_processes(inner, name, kill, depth - 1);
			close(inner);
		}
	}
	if (d != NULL)
		closedir(d);
	return n;
}

/* A list of processes can miss some that fork while it is read. cgroup.events is true for the whole group at one
 * moment. */
static bool is_populated(int dir)
{
	int fd = openat(dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
	char text[256] = "";
	ssize_t n;
	int error;

	if (fd == -1)
		/* without descriptors or memory, assume that there are processes */
		return process_error_is_shortage(errno);
	n = read(fd, text, sizeof(text) - 1);
	error = errno;
	close(fd);
	return n == -1 ? process_error_is_shortage(error) : strstr(text, "populated 1") != NULL;
}

/* Returns how many processes are left, at least 1 if the kernel calls the group populated. */
static size_t scan_group(const struct cgroup_dead *g, bool kill)
{
	bool each = kill && write_file(g->dir, "cgroup.kill", "1") == -1;
	size_t n = count_processes(g->dir, g->name, each, DEPTH_MAX);

	return n > 0 ? n : is_populated(g->dir);
}

/* Holds the lock until the group is removed, so that no start removes it as stale and no other sweeper kills in it. */
static void lock_group(struct cgroup_dead *g)
{
	g->held = flock(g->dir, LOCK_EX | LOCK_NB) == -1;
	g->killed = count_processes(g->dir, g->name, false, DEPTH_MAX);
}

static void release_group(struct cgroup_dead *g)
{
	g->killed = g->killed > g->left && !g->held ? g->killed - g->left : 0;
	if (g->held)
		close(g->dir);
	else
		cgroup_remove(g->dir, g->name);
	g->dir = -1;
}

/* Returns how many processes are left in all groups that are not held. */
static size_t kill_all(struct cgroup_dead *of, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++)
		if (of[i].dir != -1) {
			of[i].left = scan_group(&of[i], !of[i].held);
			left += of[i].held ? 0 : of[i].left;
		}
	return left;
}

void cgroup_kill(struct cgroup_dead *of, size_t n, int64_t timeout_ms)
{
	int64_t deadline_ms = clock_monotonic_ms() + timeout_ms;
	bool whole;

	for (size_t i = 0; i < n; i++) {
		of[i].killed = of[i].left = 0;
		of[i].held = false;
		of[i].dir = -1;
	}
	whole = find_groups(of, n);
	for (size_t i = 0; i < n; i++)
		if (of[i].dir != -1)
			lock_group(&of[i]);
		else if (!whole)
			of[i].left = 1;
	while (kill_all(of, n) > 0 && clock_monotonic_ms() < deadline_ms)
		clock_pause_ms(LOOK_MS);
	for (size_t i = 0; i < n; i++)
		if (of[i].dir != -1)
			release_group(&of[i]);
}
