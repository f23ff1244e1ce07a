/*
 * Finds out who can change a file, and on which file system it lies. The daemon trusts a path only if no other user can
 * change what it names, and writes only to files that no other user could have prepared.
 *
 * The walk enters a path from "/" down, as the kernel does, and checks each component first. Only root and the user can
 * change a component that passed the check, so it stays good while the rest is checked.
 */
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include <linux/openat2.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "common/base/file.h"

#include "common/base/alloc.h"
#include "common/base/nitems.h"

#define LINKS_MAX 40		/* as the kernel's */

struct walk {
	uid_t user;
	char here[PATH_MAX];	/* the component reached, all links resolved; "" is "/" */
	char rest[PATH_MAX];	/* the components that follow, */
	size_t at;		/* from here on */
	int links;
	bool links_only;	/* judge the owners of links, and nothing else */
	file_may_enter *may_enter;	/* NULL, or the one judge, of directories */
	void *arg;			/* of may_enter */
	/* here is a sticky directory: others can create entries in it, but not rename or remove ours */
	bool open;
	bool over;		/* the walk cannot go on: the component is missing, or it cannot be opened */
	bool everybody;		/* with flaw: every user can change the component */
	char *flaw;		/* NULL: none so far */
};

static const char *shown_path(const struct walk *w)
{
	return w->here[0] == '\0' ? "/" : w->here;
}

static bool sees_what_all_see(void)
{
	struct stat ours, first;

	return stat("/proc/self/ns/mnt", &ours) == 0 && stat("/proc/1/ns/mnt", &first) == 0 &&
	    ours.st_dev == first.st_dev && ours.st_ino == first.st_ino;
}

bool file_is_frozen(const char *path)
{
	struct statvfs st;

	return statvfs(path, &st) == 0 && (st.f_flag & ST_RDONLY) != 0 && sees_what_all_see();
}

static void judge_owner(struct walk *w, const struct stat *st)
{
	bool writable = !S_ISLNK(st->st_mode) && (st->st_mode & (S_IWGRP | S_IWOTH)) != 0 &&
	    !file_is_frozen(shown_path(w));

	if (w->may_enter != NULL) {
		if (S_ISDIR(st->st_mode) && !w->may_enter(w->arg, shown_path(w), st))
			w->flaw = alloc_string(shown_path(w));
		return;
	}
	if (w->links_only) {
		if (S_ISLNK(st->st_mode) && st->st_uid != 0 && st->st_uid != w->user)
			w->flaw = alloc_format(
			    "%s is a link of uid %u, who can make it lead elsewhere: name what it leads to",
			    shown_path(w), st->st_uid);
		return;
	}
	w->open = writable && S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX) != 0;
	if (st->st_uid != 0 && st->st_uid != w->user) {
		w->flaw = w->user == 0 ? alloc_format("%s belongs to uid %u, expected root: chown root %s",
		    shown_path(w), st->st_uid, shown_path(w)) :
		    alloc_format("%s belongs to uid %u, expected root or uid %u: chown it", shown_path(w), st->st_uid,
		    w->user);
	} else if (writable && !w->open) {
		w->everybody = (st->st_mode & S_IWOTH) != 0;
		w->flaw = w->everybody ?
		    alloc_format("every user can write %s (mode %04o): chmod go-w %s", shown_path(w),
		    st->st_mode & 07777, shown_path(w)) :
		    alloc_format("its group (gid %u) can write %s (mode %04o): chmod g-w %s", st->st_gid, shown_path(w),
		    st->st_mode & 07777, shown_path(w));
	}
}

/* The path itself is the cause: a caller that opens it with these rights meets the same error, and reports it. One that
 * opens it with those of the owner (log/target.c) may pass over EACCES, and opens what only the owner reaches. */
static bool is_of_path(int error)
{
	return error == ENOENT || error == EACCES || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG;
}

/* A missing component is a flaw if others can create it. After an error of another kind the caller might open a path
 * whose owners this file has not judged, so that is a flaw, too. */
static void note_error(struct walk *w, int error)
{
	w->over = true;
	if (w->may_enter != NULL)
		return;			/* nothing is known of the rest */
	if (!is_of_path(error)) {
		w->flaw = alloc_format("%s cannot be examined: %s", shown_path(w), strerror(error));
	} else if (error == ENOENT && w->open) {
		w->everybody = true;
		w->flaw = alloc_format("%s does not exist, and others can create it first", shown_path(w));
	}
}

/* The kernel resolves one link at a time and may still accept the path. */
static void note_too_long(struct walk *w)
{
	w->over = true;
	if (w->may_enter == NULL)
		w->flaw = alloc_format("%s: the path is too long once its links are resolved", shown_path(w));
}

static void go_up(char *path)
{
	char *slash = strrchr(path, '/');

	*(slash == NULL ? path : slash) = '\0';
}

static void check_component(struct walk *w, struct stat *st)
{
	if (lstat(shown_path(w), st) == -1)
		note_error(w, errno);
	else
		judge_owner(w, st);
}

/* Puts the target of the link before the rest; a relative target starts in the directory of the link. */
static void follow_link(struct walk *w)
{
	char target[PATH_MAX], rest[PATH_MAX];
	ssize_t len = readlink(w->here, target, sizeof(target) - 1);
	struct stat st;

	if (len == -1 || ++w->links > LINKS_MAX) {
		note_error(w, len == -1 ? errno : ELOOP);
		return;
	}
	target[len] = '\0';
	strlcpy(rest, w->rest + w->at, sizeof(rest));
	w->at = 0;
	if (strlcpy(w->rest, target, sizeof(w->rest)) >= sizeof(w->rest) ||
	    strlcat(w->rest, "/", sizeof(w->rest)) >= sizeof(w->rest) ||
	    strlcat(w->rest, rest, sizeof(w->rest)) >= sizeof(w->rest)) {
		note_too_long(w);
		return;
	}
	if (target[0] == '/')
		w->here[0] = '\0';
	else
		go_up(w->here);
	check_component(w, &st);
}

static void enter_component(struct walk *w, const char *name, size_t len)
{
	struct stat st;
	size_t at = strlen(w->here);

	if (len == 2 && memcmp(name, "..", 2) == 0) {
		go_up(w->here);
		check_component(w, &st);
		return;
	}
	if (at + 1 + len >= sizeof(w->here)) {
		note_too_long(w);
		return;
	}
	w->here[at] = '/';
	memcpy(w->here + at + 1, name, len);
	w->here[at + 1 + len] = '\0';
	check_component(w, &st);
	if (w->flaw == NULL && !w->over && S_ISLNK(st.st_mode))
		follow_link(w);
}

/* Takes the next name of the rest. Returns its length; 0: there is none. */
static size_t next_name(struct walk *w, char name[PATH_MAX])
{
	size_t len;

	do {
		w->at += strspn(w->rest + w->at, "/");
		len = strcspn(w->rest + w->at, "/");
		memcpy(name, w->rest + w->at, len);
		name[len] = '\0';
		w->at += len;
	} while (strcmp(name, ".") == 0);
	return len;
}

static void walk_path(struct walk *w, const char *path)
{
	char name[PATH_MAX];
	struct stat st;
	size_t len;

	if (strlcpy(w->rest, path, sizeof(w->rest)) >= sizeof(w->rest))
		return;			/* longer than the kernel accepts */
	check_component(w, &st);
	while (w->flaw == NULL && !w->over && (len = next_name(w, name)) > 0)
		enter_component(w, name, len);
}

char *file_path_flaw(const char *path, uid_t user, bool *everybody)
{
	struct walk w = { .user = user };

	walk_path(&w, path);
	*everybody = w.everybody;
	return w.flaw;
}

char *file_link_flaw(const char *path, uid_t user)
{
	struct walk w = { .user = user, .links_only = true };

	walk_path(&w, path);
	return w.flaw;
}

char *file_closed_directory(const char *path, file_may_enter *may_enter, void *arg)
{
	struct walk w = { .may_enter = may_enter, .arg = arg };

	walk_path(&w, path);
	return w.flaw;
}

/* The path has no link any more. One that came meanwhile is an error; kernels before 5.6 can only look at the last
 * component. */
static int open_without_links(const char *path)
{
	const struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS };
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	return fd == -1 && (errno == ENOSYS || errno == EPERM)
	    ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : fd;
}

static char *directory_flaw(int fd, const char *path, uid_t user)
{
	struct stat st;

	if (fd == -1 || fstat(fd, &st) == -1)
		return alloc_format("%s: %s", path, strerror(errno));
	if (st.st_uid != 0 && st.st_uid != user)
		return alloc_format("%s belongs to uid %u, expected root or uid %u: chown it", path, st.st_uid, user);
	return NULL;
}

int file_open_directory(const char *path, uid_t user, char **flaw)
{
	struct walk w = { .user = user, .links_only = true };
	int fd;

	walk_path(&w, path);
	*flaw = w.flaw;
	if (*flaw != NULL)
		return -1;
	fd = open_without_links(w.over ? path : shown_path(&w));
	*flaw = directory_flaw(fd, path, user);
	if (*flaw == NULL)
		return fd;
	if (fd != -1)
		close(fd);
	return -1;
}

/* ---- file systems ---- */

static const struct { uint32_t magic; const char *name; } network_types[] = {
	{ 0x00006969, "nfs" }, { 0x0000517b, "smb" }, { 0xff534d42, "cifs" }, { 0xfe534d42, "smb2" },
	{ 0x5346414f, "afs" }, { 0x6b414653, "kafs" }, { 0x73757245, "coda" }, { 0x00c36400, "ceph" },
	{ 0x0bd00bd0, "lustre" }, { 0x7461636f, "ocfs2" }, { 0x01161970, "gfs2" }, { 0x0000564c, "ncp" },
	{ 0x01021997, "9p" }, { 0x47504653, "gpfs" }, { 0xaad7aaea, "panfs" }, { 0x19830326, "fhgfs" },
};

const char *file_network_fs(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) == -1)
		return NULL;
	for (size_t i = 0; i < nitems(network_types); i++)
		if ((uint32_t)fs.f_type == network_types[i].magic)
			return network_types[i].name;
	return NULL;
}
