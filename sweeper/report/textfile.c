/*
 * Writes the file that the node exporter of Prometheus reads. A subprocess writes it, since a disk may block, under
 * another name, and renames it, so that no reader sees half of it. The file is not synced: after a crash of the machine
 * the next round writes it again.
 */
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "common/base/base.h"
#include "sweeper/core/core.h"
#include "sweeper/report/metrics.h"

#define TIMEOUT_MS 30000
#define MODE 0644

struct job {
	const char *path, *temporary;
	const struct buffer *text;
};

static int report_failure(int out, const char *path, const char *what)
{
	dprintf(out, "%s: %s", path, what);
	return 1;
}

/*
 * Opens the temporary file. Its name is fixed, so that no files are left over; the process that holds the lock is its
 * only writer. If the file was renamed between open and lock, it is the published file now and must not be changed. -1,
 * and the reason in *why
 */
static int open_temporary(const char *path, const char **why)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, MODE);
	struct stat ours, there;

	*why = strerror(errno);
	if (fd == -1)
		return -1;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &ours) == 0 && lstat(path, &there) == 0) {
		*why = file_flaw(&ours);
		if (*why == NULL)	/* the file must have no other name */
			*why = file_flaw(&there);
		if (*why == NULL && (ours.st_ino != there.st_ino || ours.st_dev != there.st_dev))
			*why = strerror(EBUSY);
		if (*why == NULL)
			return fd;
	} else {
		*why = strerror(errno);
	}
	close(fd);
	return -1;
}

static int put(int fd, const struct buffer *text)
{
	size_t done = 0;

	if (ftruncate(fd, 0) == -1 || fchmod(fd, MODE) == -1)
		return -1;
	while (done < text->len) {
		ssize_t n = write(fd, text->data + done, text->len - done);

		if (n == -1 && errno != EINTR)
			return -1;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int work(void *arg, int out)
{
	const struct job *j = arg;
	char *link = file_link_flaw(j->temporary, geteuid());
	const char *why = link;
	int fd = link == NULL ? open_temporary(j->temporary, &why) : -1;

	if (fd == -1)
		return report_failure(out, j->temporary, why);
	if (put(fd, j->text) == -1) {
		int error = errno;

		unlink(j->temporary);
		return report_failure(out, j->temporary, strerror(error));
	}
	if (rename(j->temporary, j->path) == -1) {
		int error = errno;

		unlink(j->temporary);
		return report_failure(out, j->path, strerror(error));
	}
	return 0;
}

static void note_error(struct sweeper *s, const char *error)
{
	struct textfile *t = &metrics_own(s)->textfile;

	if (strcmp(t->error, error) == 0)
		return;
	strlcpy(t->error, error, sizeof(t->error));
	if (error[0] == '\0')
		log_info("textfile_written", log_str("path", s->conf->metrics.textfile));
	else
		log_warning("textfile_failed", log_str("path", s->conf->metrics.textfile), log_str("error", error),
		    log_str("advice", "the sweeper writes it again at every metrics.interval"));
}

void textfile_look(struct sweeper *s, int64_t now_ms)
{
	struct textfile *t = &metrics_own(s)->textfile;
	char said[sizeof(t->error)];
	int status;

	if (!subprocess_poll(&t->writing, &status, now_ms))
		return;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
		note_error(s, "");
		return;
	}
	buffer_append(&t->writing.said, "", 1);
	strlcpy(said, t->writing.said.len > 1 ? t->writing.said.data
	    : "the process that writes it took too long, or was killed", sizeof(said));
	note_error(s, said);
}

void textfile_write(struct sweeper *s, int64_t now_ms)
{
	struct textfile *t = &metrics_own(s)->textfile;
	char *temporary;

	if (subprocess_runs(&t->writing))
		return;
	buffer_clear(&t->text);
	prometheus_page(s, &t->text, now_ms);
	temporary = alloc_format("%s.tmp", s->conf->metrics.textfile);
	if (subprocess_start(&t->writing, work, &(struct job){ s->conf->metrics.textfile, temporary, &t->text },
	    TIMEOUT_MS, now_ms) == -1)
		note_error(s, strerror(errno));
	free(temporary);
}
