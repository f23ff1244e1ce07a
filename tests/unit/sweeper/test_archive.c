/* ldflags: -Wl,--wrap=write -Wl,--wrap=pwrite -Wl,--wrap=fdatasync -Wl,--wrap=fsync -Wl,--wrap=faccessat -Wl,--wrap=fstatat */

/* Files of an archive: what a full disk, a death or a stranger leaves there, and what the last batch names. */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sweeper/dead_letters/archive.h"

#include "common/base/alloc.h"
#include "tests/unit/unit.h"

static char directory[] = "/tmp/qr.archive.XXXXXX";
static struct archive archive = { .directory = directory, .queue = "mail", .node = "n", .file_max = 1 << 20 };
static ssize_t disk;		/* bytes that are left; -1: enough */
static bool sync_fails, directory_sync_fails;
static int look_errno;		/* of looks at names; 0: none */

ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);
ssize_t __real_pwrite(int fd, const void *data, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t len, off_t at);
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_faccessat(int at, const char *path, int mode, int flags);
int __wrap_faccessat(int at, const char *path, int mode, int flags);
int __real_fstatat(int at, const char *path, struct stat *st, int flags);
int __wrap_fstatat(int at, const char *path, struct stat *st, int flags);

ssize_t __wrap_write(int fd, const void *data, size_t len)
{
	ssize_t n;

	if (disk == 0) {
		errno = ENOSPC;
		return -1;
	}
	n = __real_write(fd, data, disk > 0 && (size_t)disk < len ? (size_t)disk : len);
	if (disk > 0)
		disk -= n;
	return n;
}

static char done[64];		/* what was called, a letter each */

static void note(char what)
{
	size_t len = strlen(done);

	if (len + 1 < sizeof(done))
		done[len] = what;
}

ssize_t __wrap_pwrite(int fd, const void *data, size_t len, off_t at)
{
	note('p');
	if (disk == 0) {
		errno = ENOSPC;
		return -1;
	}
	return __real_pwrite(fd, data, len > 20 ? 20 : len, at);
}

int __wrap_fdatasync(int fd)
{
	note('d');
	if (!sync_fails)
		return __real_fdatasync(fd);
	errno = EIO;
	return -1;
}

int __wrap_fsync(int fd)
{
	if (!directory_sync_fails)
		return __real_fsync(fd);
	errno = EIO;
	return -1;
}

int __wrap_faccessat(int at, const char *path, int mode, int flags)
{
	if (look_errno == 0)
		return __real_faccessat(at, path, mode, flags);
	errno = look_errno;
	return -1;
}

int __wrap_fstatat(int at, const char *path, struct stat *st, int flags)
{
	if (look_errno == 0 || path[0] == '\0')
		return __real_fstatat(at, path, st, flags);
	errno = look_errno;
	return -1;
}

/* ---- */

static char said[4096];

/* What was written to `out`, in said; the exit status. */
static int listen_to(int status, int fds[2])
{
	ssize_t n;

	close(fds[1]);
	n = read(fds[0], said, sizeof(said) - 1);
	said[n < 0 ? 0 : n] = '\0';
	close(fds[0]);
	return status;
}

static int append(const char *lines)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	return listen_to(archive_append(&archive, lines, strlen(lines), "20261120T143107.123Z", fds[1]), fds);
}

static int last_batch(void)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	return listen_to(archive_last_batch(&archive, fds[1]), fds);
}

static char *path_of(const char *name)
{
	return alloc_format("%s/%s", directory, name);
}

static void write_file(const char *name, const char *text)
{
	char *path = path_of(name);
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	free(path);
}

static void put(const char *text)
{
	write_file("mail@n.ndjson", text);
}

static void assert_holds(const char *name, const char *text)
{
	char *path = path_of(name), got[4096];
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	got[fread(got, 1, sizeof(got) - 1, f)] = '\0';
	fclose(f);
	free(path);
	assert_string_equal(got, text);
}

static int setup(void **state)
{
	(void)state;
	disk = -1;
	sync_fails = directory_sync_fails = false;
	look_errno = 0;
	archive.file_max = 1 << 20;
	strcpy(directory, "/tmp/qr.archive.XXXXXX");
	return mkdtemp(directory) == NULL ? -1 : 0;
}

static int teardown(void **state)
{
	static const char *const names[] = { "mail@n.ndjson", "mail@n@20261120T143107.123Z.ndjson", "mail@n@20261120T143107.123Z.1.ndjson", "aside" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *path = path_of(names[i]);

		remove(path);
		free(path);
	}
	return rmdir(directory);
}

#define LINE(id, batch) "{\"record\":\"" id "\",\"batch\":\"" batch "\"}\n"

TEST(lines_come_behind_each_other_and_the_last_batch_is_named, setup, teardown)
{
	assert_int_equal(last_batch(), 0);
	assert_string_equal(said, "");
	assert_int_equal(append(LINE("1-0", "1-0") LINE("2-0", "1-0")), 0);
	assert_int_equal(append(LINE("3-0", "3-0") LINE("4-0", "3-0")), 0);
	assert_int_equal(last_batch(), 0);
	assert_string_equal(said, "4-0 -\n3-0 -\n");
	assert_holds("mail@n.ndjson", LINE("1-0", "1-0") LINE("2-0", "1-0") LINE("3-0", "3-0") LINE("4-0", "3-0"));
}

TEST(a_full_disk_leaves_the_file_as_it_was, setup, teardown)
{
	assert_int_equal(append(LINE("1-0", "1-0")), 0);
	for (ssize_t room = 0; room < 40; room += 13) {
		disk = room;
		assert_int_equal(append(LINE("2-0", "2-0") LINE("3-0", "2-0")), 1);
		assert_non_null(strstr(said, "mail@n.ndjson: write: No space left on device"));
		assert_holds("mail@n.ndjson", LINE("1-0", "1-0"));
	}
	disk = -1;
	sync_fails = true;
	assert_int_equal(append(LINE("2-0", "2-0")), 1);
	assert_holds("mail@n.ndjson", LINE("1-0", "1-0"));
	assert_int_equal(last_batch(), 1);	/* nothing is named that may not be on the disk */
	assert_null(strstr(said, "1-0 "));
}

/* Its writer may have died before it saw to that. */
TEST(nothing_is_named_while_the_file_may_have_no_name, setup, teardown)
{
	assert_int_equal(append(LINE("1-0", "1-0")), 0);
	directory_sync_fails = true;
	assert_int_equal(last_batch(), 1);
	assert_string_equal(said, strstr(said, directory));
	assert_non_null(strstr(said, "Input/output error"));
}

/* The kernel may have dropped what the disk once failed to write. */
TEST(the_last_batch_is_written_again_before_it_is_named, setup, teardown)
{
	assert_int_equal(append(LINE("1-0", "1-0") LINE("2-0", "2-0") LINE("3-0", "2-0")), 0);
	memset(done, 0, sizeof(done));
	assert_int_equal(last_batch(), 0);
	assert_string_equal(said, "3-0 -\n2-0 -\n");
	assert_string_equal(done, "ppppd");		/* 66 bytes, 20 at a time */
	assert_holds("mail@n.ndjson", LINE("1-0", "1-0") LINE("2-0", "2-0") LINE("3-0", "2-0"));
	disk = 0;
	assert_int_equal(last_batch(), 1);
	assert_non_null(strstr(said, "No space left"));
	assert_null(strstr(said, "3-0 "));
	assert_holds("mail@n.ndjson", LINE("1-0", "1-0") LINE("2-0", "2-0") LINE("3-0", "2-0"));
	disk = -1;
	assert_int_equal(append(LINE("4-0", "4-0")), 0);
	assert_int_equal(last_batch(), 0);
	assert_string_equal(said, "4-0 -\n");
}

TEST(who_cannot_be_told_all_names_is_told_so, setup, teardown)
{
	int fds[2];

	assert_int_equal(append(LINE("1-0", "1-0")), 0);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(archive_last_batch(&archive, fds[0]), 1);	/* which cannot be written to */
	close(fds[0]);
	close(fds[1]);
}

TEST(what_had_no_message_is_named_so, setup, teardown)
{
	assert_int_equal(append(LINE("1-0", "1-0") "{\"record\":\"2-0\",\"batch\":\"1-0\",\"orphan\":true}\n"), 0);
	assert_int_equal(last_batch(), 0);
	assert_string_equal(said, "2-0 - orphan\n1-0 -\n");
}

/* Of earlier versions the sha1 of the message; what is no such word is none. */
TEST(the_digest_tells_of_what_a_line_is, setup, teardown)
{
	assert_int_equal(append("{\"record\":\"1-0\",\"sha1\":\"aa\",\"batch\":\"1-0\"}\n"
				"{\"record\":\"2-0\",\"sha1\":\"bb\",\"batch\":\"1-0\",\"digest\":\"cc\",\"orphan\":true}\n"
				"{\"record\":\"3-0\",\"sha1\":\"d d\\n9-0\",\"batch\":\"1-0\"}\n"), 0);
	assert_int_equal(last_batch(), 0);
	assert_string_equal(said, "3-0 -\n2-0 cc orphan\n1-0 aa\n");
}

TEST(a_torn_line_is_cut_off, setup, teardown)
{
	put(LINE("1-0", "1-0") LINE("2-0", "1-0") "{\"record\":\"3-0\",\"bat");
	assert_int_equal(last_batch(), 0);
	assert_string_equal(said, "2-0 -\n1-0 -\n");
	assert_holds("mail@n.ndjson", LINE("1-0", "1-0") LINE("2-0", "1-0"));
	put("{\"record\"");
	assert_int_equal(append(LINE("4-0", "4-0")), 0);
	assert_holds("mail@n.ndjson", LINE("4-0", "4-0"));
}

TEST(what_holds_a_nul_is_named, setup, teardown)
{
	assert_int_equal(append(LINE("1-0", "1-0") "{\"record\":\"2-0\",\"message\":\"a\\u0000b\",\"batch\":\"2-0\"}\n"), 0);
	assert_int_equal(last_batch(), 0);
	assert_string_equal(said, "2-0 -\n");
}

TEST(what_cannot_be_read_names_nothing, setup, teardown)
{
	put(LINE("1-0", "1-0") LINE("2-0", "2-0") "rubbish\n{}\n\n" LINE("3-0", "2-0") "[1]\n");
	assert_int_equal(last_batch(), 0);
	assert_string_equal(said, "3-0 -\n2-0 -\n");
}

TEST(a_full_file_is_put_aside, setup, teardown)
{
	archive.file_max = 10;
	assert_int_equal(append(LINE("1-0", "1-0")), 0);
	assert_int_equal(append(LINE("2-0", "2-0")), 0);
	assert_int_equal(append(LINE("3-0", "3-0")), 0);
	assert_holds("mail@n@20261120T143107.123Z.ndjson", LINE("1-0", "1-0"));
	assert_holds("mail@n@20261120T143107.123Z.1.ndjson", LINE("2-0", "2-0"));
	assert_holds("mail@n.ndjson", LINE("3-0", "3-0"));
}

/* A disk that cannot tell whether a name is free does not say that it is. */
TEST(no_other_file_is_written_over, setup, teardown)
{
	archive.file_max = 10;
	assert_int_equal(append(LINE("1-0", "1-0")), 0);
	assert_int_equal(append(LINE("2-0", "2-0")), 0);
	look_errno = EIO;
	assert_int_equal(append(LINE("3-0", "3-0")), 1);
	assert_non_null(strstr(said, "Input/output error"));
	look_errno = 0;
	assert_holds("mail@n@20261120T143107.123Z.ndjson", LINE("1-0", "1-0"));
	assert_holds("mail@n.ndjson", LINE("2-0", "2-0"));
}

TEST(what_others_put_there_is_not_written_to, setup, teardown)
{
	char *path = path_of("mail@n.ndjson"), *aside = path_of("aside");

	assert_int_equal(symlink(aside, path), 0);
	assert_int_equal(append(LINE("1-0", "1-0")), 1);
	assert_int_equal(access(aside, F_OK), -1);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(append(LINE("1-0", "1-0")), 1);
	assert_non_null(strstr(said, "is not a regular file"));
	assert_int_equal(unlink(path), 0);
	write_file("aside", "theirs\n");
	assert_int_equal(link(aside, path), 0);
	assert_int_equal(append(LINE("1-0", "1-0")), 1);
	assert_non_null(strstr(said, "has a second name"));
	assert_holds("aside", "theirs\n");
	if (geteuid() == 0) {
		assert_int_equal(unlink(path), 0);
		assert_int_equal(chown(aside, 65534, 65534), 0);
		assert_int_equal(rename(aside, path), 0);
		assert_int_equal(append(LINE("1-0", "1-0")), 1);
		assert_non_null(strstr(said, "belongs to another user"));
		assert_holds("mail@n.ndjson", "theirs\n");
	}
	free(path);
	free(aside);
}

UNIT_MAIN(NULL, NULL)
