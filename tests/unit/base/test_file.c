/* ldflags: -Wl,--wrap=lstat -Wl,--wrap=readlink -Wl,--wrap=fstat */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "tests/unit/unit.h"

/* Which paths can be changed by others: owners, modes, sticky directories, links. In /tmp, which is sticky itself. */

#define OTHER 65534

static char directory[32];
static bool everybody;

/* ---- a disk that fails ---- */

static int until_failure = -1;	/* calls that still succeed; -1: all */
static int failure;
static int link_failure, descriptor_failure;	/* of each call; 0: none */

int __real_lstat(const char *path, struct stat *st);
int __wrap_lstat(const char *path, struct stat *st);

int __wrap_lstat(const char *path, struct stat *st)
{
	if (until_failure >= 0 && until_failure-- == 0) {
		errno = failure;
		return -1;
	}
	return __real_lstat(path, st);
}

ssize_t __real_readlink(const char *path, char *target, size_t size);
ssize_t __wrap_readlink(const char *path, char *target, size_t size);

ssize_t __wrap_readlink(const char *path, char *target, size_t size)
{
	errno = link_failure;
	return link_failure != 0 ? -1 : __real_readlink(path, target, size);
}

int __real_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st);

int __wrap_fstat(int fd, struct stat *st)
{
	errno = descriptor_failure;
	return descriptor_failure != 0 ? -1 : __real_fstat(fd, st);
}

static const char *at(const char *name)
{
	static char path[8][PATH_MAX];
	static size_t next;

	next = (next + 1) % 8;
	snprintf(path[next], sizeof(path[next]), "%s/%s", directory, name);
	return path[next];
}

static void make_directory(const char *name, mode_t mode)
{
	assert_int_equal(mkdir(at(name), 0700), 0);
	assert_int_equal(chmod(at(name), mode), 0);
}

static void make_file(const char *name, mode_t mode)
{
	int fd = open(at(name), O_WRONLY | O_CREAT | O_EXCL, 0600);

	assert_int_not_equal(fd, -1);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void is_safe_for(uid_t user, const char *path)
{
	char *flaw = file_path_flaw(path, user, &everybody);

	if (flaw != NULL)
		fail_msg("%s: %s", path, flaw);
	assert_false(everybody);
}

static void is_safe(const char *path)
{
	is_safe_for(geteuid(), path);
}

static void is_flawed_for(uid_t user, const char *path, const char *component, const char *what)
{
	char *flaw = file_path_flaw(path, user, &everybody);

	if (flaw == NULL)
		fail_msg("%s is found safe", path);
	if (strstr(flaw, component) == NULL || strstr(flaw, what) == NULL)
		fail_msg("%s: %s, not %s: %s", path, flaw, component, what);
	free(flaw);
}

static void is_flawed(const char *path, const char *component, const char *what)
{
	is_flawed_for(geteuid(), path, component, what);
}

static int setup(void **state)
{
	(void)state;
	strcpy(directory, "/tmp/safe_path.XXXXXX");
	return mkdtemp(directory) == NULL || chmod(directory, 0755) == -1 ? -1 : 0;
}

static int teardown(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return system(command);
}

TEST(what_only_root_can_change, setup, teardown)
{
	is_safe("/");
	is_safe("/bin/true");
	is_safe("//usr/./bin/../bin/env");
	is_safe("/nowhere/at/all");
	is_safe("/bin/true/below");
	make_file("file", 0755);
	is_safe(at("file"));
	is_safe(at("missing"));
}

/* Every component counts, not only the last two. */
TEST(a_mode_that_lets_others_write, setup, teardown)
{
	make_directory("a", 0755);
	make_directory("a/b", 0755);
	make_file("a/b/file", 0755);
	is_safe(at("a/b/file"));
	chmod(at("a"), 0757);
	is_flawed(at("a/b/file"), "/a (mode 0757)", "every user can write");
	assert_true(everybody);
	chmod(at("a"), 0775);
	is_flawed(at("a/b/file"), "/a (mode 0775)", "its group");
	assert_false(everybody);
	chmod(at("a"), 0755);
	chmod(at("a/b/file"), 0775);
	is_flawed(at("a/b/file"), "/a/b/file (mode 0775)", "chmod g-w ");
	chmod(at("a/b/file"), 01777);		/* the bit means nothing for a file */
	is_flawed(at("a/b/file"), "/a/b/file (mode 1777)", "every user can write");
}

TEST(a_sticky_directory, setup, teardown)
{
	make_directory("s", 01777);
	make_directory("s/mine", 0755);
	make_file("s/mine/file", 0755);
	is_safe(at("s/mine/file"));
	is_safe(at("s/mine/missing"));
	is_safe(at("s"));
	is_flawed(at("s/missing"), "/s/missing", "others can create it first");
	assert_true(everybody);
	is_flawed(at("s/mine/../missing"), "/s/missing", "others can create it first");
	chmod(at("s"), 01775);
	is_safe(at("s/mine/file"));
	if (geteuid() != 0)
		return;
	assert_int_equal(chown(at("s/mine"), OTHER, OTHER), 0);
	is_flawed(at("s/mine/file"), "/s/mine belongs to uid 65534", "chown root ");
	assert_int_equal(chown(at("s/mine"), 0, 0), 0);
	assert_int_equal(chown(at("s"), OTHER, OTHER), 0);		/* who may rename what is in it */
	is_flawed(at("s/mine/file"), "/s belongs to uid 65534", "expected root");
}

TEST(another_owner, setup, teardown)
{
	if (geteuid() != 0)
		skip();
	make_directory("d", 0755);
	make_file("d/file", 0755);
	assert_int_equal(chown(at("d"), OTHER, OTHER), 0);
	is_flawed(at("d/file"), "/d belongs to uid 65534", "expected root: chown root ");
	is_safe_for(OTHER, at("d/file"));
	is_flawed_for(12345, at("d/file"), "/d belongs to uid 65534", "expected root or uid 12345");
}

TEST(links, setup, teardown)
{
	make_directory("open", 0777);
	make_file("open/file", 0755);
	make_directory("l", 0755);
	make_directory("l/deep", 0755);
	make_file("l/file", 0755);
	assert_int_equal(symlink("../file", at("l/deep/good")), 0);
	is_safe(at("l/deep/good"));
	assert_int_equal(symlink("../../open/file", at("l/deep/relative")), 0);
	is_flawed(at("l/deep/relative"), "/open (mode 0777)", "every user");
	assert_int_equal(symlink(at("open/file"), at("l/absolute")), 0);
	is_flawed(at("l/absolute"), "/open (mode 0777)", "every user");
	assert_int_equal(symlink("deep", at("l/dir")), 0);
	is_flawed(at("l/dir/relative"), "/open (mode 0777)", "every user");
	assert_int_equal(symlink(at("l/file"), at("open/link")), 0);	/* what it leads to is good, but who leads there? */
	is_flawed(at("open/link"), "/open (mode 0777)", "every user");
	assert_int_equal(symlink("loop", at("l/loop")), 0);
	is_safe(at("l/loop"));		/* it cannot be opened */
	if (geteuid() != 0)
		return;
	assert_int_equal(lchown(at("l/deep/good"), OTHER, OTHER), 0);
	is_flawed(at("l/deep/good"), "/l/deep/good belongs to uid 65534", "expected root");
}

/* The link is short enough for the kernel, and so is the path; together they are not. */
TEST(a_link_that_is_too_long, setup, teardown)
{
	char target[PATH_MAX], path[PATH_MAX];
	size_t len = strlen(directory);

	make_file("file", 0755);
	memset(target, '/', sizeof(target));
	memcpy(target + sizeof(target) - 1 - len, directory, len + 1);
	assert_int_equal(symlink(target, at("link")), 0);
	snprintf(path, sizeof(path), "%s/./././file", at("link"));
	is_flawed(path, directory, "too long once its links are resolved");
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(unlink(at("link")), 0);
	assert_int_equal(symlink(target + 100, at("link")), 0);
	is_safe(path);
}

/* The error may be over when the caller opens the path. EACCES is no flaw: the caller meets it, too, and reports it. */
TEST(a_component_that_cannot_be_examined, setup, teardown)
{
	make_directory("a", 0755);
	make_directory("a/b", 0777);
	for (int i = 0; i < 5; i++) {
		char *flaw;

		until_failure = i;
		failure = EIO;
		flaw = file_path_flaw(at("a/b"), geteuid(), &everybody);
		assert_non_null(flaw);
		assert_non_null(strstr(flaw, "cannot be examined: Input/output error"));
		free(flaw);
	}
	until_failure = 1;
	failure = EACCES;
	assert_null(file_path_flaw(at("a/b"), geteuid(), &everybody));
	until_failure = -1;
}

TEST(a_link_that_cannot_be_read, setup, teardown)
{
	make_directory("a", 0755);
	assert_int_equal(symlink("a", at("link")), 0);
	is_safe(at("link"));
	link_failure = EIO;
	is_flawed(at("link"), "/link", "cannot be examined: Input/output error");
	link_failure = 0;
}

TEST(a_directory_that_cannot_be_examined_once_it_is_open, setup, teardown)
{
	char *flaw = NULL;

	make_directory("a", 0755);
	descriptor_failure = EIO;
	assert_int_equal(file_open_directory(at("a"), geteuid(), &flaw), -1);
	descriptor_failure = 0;
	assert_non_null(strstr(flaw, "/a: Input/output error"));
	free(flaw);
}

TEST(links_of_root_and_the_user_alone_are_followed, setup, teardown)
{
	char *flaw = NULL;
	int fd;

	if (geteuid() != 0)
		skip();
	make_directory("real", 0700);
	assert_int_equal(symlink("real", at("link")), 0);
	fd = file_open_directory(at("link"), 0, &flaw);
	assert_int_not_equal(fd, -1);
	close(fd);
	assert_null(file_link_flaw(at("link/file"), 0));
	assert_int_equal(lchown(at("link"), OTHER, OTHER), 0);
	flaw = file_link_flaw(at("link/file"), 0);
	assert_non_null(strstr(flaw, "/link is a link of uid 65534"));
	free(flaw);
	assert_null(file_link_flaw(at("link/file"), OTHER));
	assert_int_equal(file_open_directory(at("link"), 0, &flaw), -1);
	assert_non_null(strstr(flaw, "/link is a link of uid 65534"));
	free(flaw);
	assert_int_equal(chown(at("real"), OTHER, OTHER), 0);
	assert_int_equal(file_open_directory(at("real"), 0, &flaw), -1);
	assert_non_null(strstr(flaw, "/real belongs to uid 65534"));
	free(flaw);
	assert_int_equal(file_open_directory(at("nowhere"), 0, &flaw), -1);
	assert_non_null(strstr(flaw, "No such file"));
	free(flaw);
}

UNIT_MAIN(NULL, NULL)
