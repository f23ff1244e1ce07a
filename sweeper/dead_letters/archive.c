/*
 * The files of the archive: appends dead letters, rotates a full file, and finds the records of the last batch. It
 * never talks to Redis: sweeper/dead_letters/bounds.c decides which dead letters may be removed there. An append
 * returns when its lines are on the disk. If it fails, the file is cut back to its old length.
 */
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "sweeper/dead_letters/archive.h"

#include "common/base/base.h"

#define NAMES_MAX 1000		/* files that became full in the same millisecond */

struct file {
	const struct archive *a;
	int directory, fd;
	char *name;
	off_t size;
	int out;
};

static int report_failure(const struct file *f, const char *what, int error)
{
	dprintf(f->out, "%s/%s: %s: %s", f->a->directory, f->name, what, strerror(error));
	return -1;
}

/* ---- the file ---- */

/*
 * Another process may have rotated the file between the opening and the lock. 1: the file still has its name; 0: it was
 * renamed; -1: error
 */
static int is_still_there(const struct file *f, const struct stat *st)
{
	struct stat there;

	if (fstatat(f->directory, f->name, &there, AT_SYMLINK_NOFOLLOW) == -1)
		return errno == ENOENT ? 0 : report_failure(f, "stat", errno);
	return there.st_dev == st->st_dev && there.st_ino == st->st_ino;
}

static int open_locked(struct file *f)
{
	struct stat st;
	int there = 0;

	while (there == 0) {
		f->fd = openat(f->directory, f->name, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
		    0600);
		if (f->fd == -1)
			return report_failure(f, "open", errno);
		if (fstat(f->fd, &st) == -1)
			return report_failure(f, "fstat", errno);
		if (file_flaw(&st) != NULL) {
			dprintf(f->out, "%s/%s %s", f->a->directory, f->name, file_flaw(&st));
			return -1;
		}
		if (flock(f->fd, LOCK_EX) == -1)
			return report_failure(f, "flock", errno);
		there = is_still_there(f, &st);
		if (there == 0)
			close(f->fd);
	}
	if (there == 1 && fstat(f->fd, &st) == -1)
		return report_failure(f, "fstat", errno);
	f->size = st.st_size;
	return there == 1 ? 0 : -1;
}

/* Cuts the file after its last newline. */
static int cut_torn_line(struct file *f)
{
	char block[4096];
	off_t end = f->size;

	while (end > 0) {
		size_t want = end < (off_t)sizeof(block) ? (size_t)end : sizeof(block);
		const char *newline;

		if (pread(f->fd, block, want, end - (off_t)want) != (ssize_t)want)
			return report_failure(f, "read", EIO);
		newline = memrchr(block, '\n', want);
		if (newline != NULL) {
			end -= (off_t)want - (newline + 1 - block);
			break;
		}
		end -= (off_t)want;
	}
	if (end == f->size)
		return 0;
	f->size = end;
	return ftruncate(f->fd, end) == -1 ? report_failure(f, "truncate", errno) : 0;
}

static int file_open(struct file *f, const struct archive *a, int out)
{
	char *flaw;

	*f = (struct file){ .a = a, .fd = -1, .out = out, .name = alloc_format("%s@%s.ndjson", a->queue, a->node) };
	f->directory = file_open_directory(a->directory, geteuid(), &flaw);
	if (f->directory == -1) {
		dprintf(out, "%s", flaw);
		free(flaw);
		return -1;
	}
	return open_locked(f) == -1 ? -1 : cut_torn_line(f);
}

static int file_close(struct file *f, int rc)
{
	if (f->fd != -1)
		close(f->fd);
	if (f->directory != -1)
		close(f->directory);
	free(f->name);
	return rc == -1 ? 1 : 0;
}

/* ---- appending ---- */

/* Returns a new string: a name that no file has. NULL: errno says why */
static char *free_name(const struct file *f, const char *stamp)
{
	for (int i = 0; i < NAMES_MAX; i++) {
		char *name = i == 0 ? alloc_format("%s@%s@%s.ndjson", f->a->queue, f->a->node, stamp)
				    : alloc_format("%s@%s@%s.%d.ndjson", f->a->queue, f->a->node, stamp, i);

		if (faccessat(f->directory, name, F_OK, AT_SYMLINK_NOFOLLOW) == -1) {
			if (errno == ENOENT)
				return name;
			free(name);
			return NULL;
		}
		free(name);
	}
	errno = EEXIST;
	return NULL;
}

static int rotate(struct file *f, const char *stamp)
{
	char *old = free_name(f, stamp);
	int rc = old == NULL ? -1 : renameat(f->directory, f->name, f->directory, old);

	free(old);
	if (rc == -1)
		return report_failure(f, "rename", errno);
	close(f->fd);
	return open_locked(f);
}

static int write_all(const struct file *f, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = write(f->fd, data, len);

		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return -1;
		data += n;
		len -= (size_t)n;
	}
	return fdatasync(f->fd);
}

/* If the write fails, cuts the incomplete batch off again, so that it never counts as archived. */
static int append_batch(const struct file *f, const void *lines, size_t len)
{
	int error;

	if (write_all(f, lines, len) == 0 && (f->size > 0 || fsync(f->directory) == 0))
		return 0;
	error = errno;
	if (ftruncate(f->fd, f->size) == -1)
		return report_failure(f, "truncate", errno);
	return report_failure(f, "write", error);
}

int archive_append(const struct archive *a, const void *lines, size_t len, const char *stamp, int out)
{
	struct file f;
	int rc = file_open(&f, a, out);

	if (rc == 0 && f.size >= a->file_max)
		rc = rotate(&f, stamp);
	if (rc == 0)
		rc = append_batch(&f, lines, len);
	return file_close(&f, rc);
}

/* ---- the last batch ---- */

/* The digest in a line, which tells its record from others (struct dead_letter_name); "-": the line has none. */
static const char *digest_of(const json_t *line)
{
	const char *digest = json_string_value(json_object_get(line, "digest"));

	if (digest == NULL)
		digest = json_string_value(json_object_get(line, "sha1"));
	return digest == NULL || strlen(digest) != strspn(digest, "0123456789abcdef") || digest[0] == '\0' ? "-"
	    : digest;
}

/*
 * Writes the record of a line to out, unless out is -1. 1: done; 0: the line belongs to another batch; -1: error. A
 * line that cannot be parsed, as a power failure can leave it, is skipped.
 */
static int name_line(const char *line, size_t len, char **batch, int out)
{
	json_t *object = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
	const char *id = json_string_value(json_object_get(object, "record"));
	const char *of = json_string_value(json_object_get(object, "batch"));
	int rc = 1;

	if (id != NULL && of != NULL) {
		if (*batch == NULL)
			*batch = alloc_string(of);
		if (strcmp(*batch, of) != 0)
			rc = 0;
		else if (out != -1 && dprintf(out, "%s %s%s\n", id, digest_of(object),
		    json_is_true(json_object_get(object, "orphan")) ? " orphan" : "") < 0)
			rc = -1;
	}
	json_decref(object);
	return rc;
}

/*
 * Names all records of the last batch, or fails: a record that is not named would be archived again. Returns the offset
 * at which the batch begins; -1: error
 */
static off_t name_lines(const char *text, size_t len, int out)
{
	char *batch = NULL;
	size_t begin = len;
	int rc = 1;

	while (len > 0) {
		const char *before = memrchr(text, '\n', len - 1), *line = before == NULL ? text : before + 1;

		rc = name_line(line, (size_t)(text + len - line), &batch, out);
		if (rc != 1)
			break;
		begin = len = (size_t)(line - text);
	}
	free(batch);
	return rc == -1 ? -1 : (off_t)begin;
}

/*
 * Writes the last batch again, since after a failed write the kernel may have dropped the data and still report later
 * syncs as successful. Also syncs the directory: the process that created the file may have died before it did so.
 */
static int write_again(const struct file *f, const char *text, off_t from)
{
	if (fcntl(f->fd, F_SETFL, O_NONBLOCK) == -1)	/* pwrite(2) ignores its offset under O_APPEND */
		return -1;
	while (from < f->size) {
		ssize_t n = pwrite(f->fd, text + from, (size_t)(f->size - from), from);

		if (n == -1 && errno != EINTR)
			return -1;
		from += n > 0 ? n : 0;
	}
	return fdatasync(f->fd) == -1 || fsync(f->directory) == -1 ? -1 : 0;
}

static int name_last(const struct file *f)
{
	off_t begin;
	void *text;
	int rc;

	if (f->size == 0)
		return 0;
	text = mmap(NULL, (size_t)f->size, PROT_READ, MAP_PRIVATE, f->fd, 0);
	if (text == MAP_FAILED)
		return report_failure(f, "mmap", errno);
	begin = name_lines(text, (size_t)f->size, -1);
	rc = begin == -1 ? -1 : write_again(f, text, begin);
	if (rc == -1)
		report_failure(f, "write", errno);
	else
		rc = name_lines(text, (size_t)f->size, f->out) == -1 ? -1 : 0;
	munmap(text, (size_t)f->size);
	return rc;
}

int archive_last_batch(const struct archive *a, int out)
{
	struct file f;
	int rc = file_open(&f, a, out);

	if (rc == 0)
		rc = name_last(&f);
	return file_close(&f, rc);
}
