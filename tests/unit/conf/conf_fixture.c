/* Configuration files in a directory of their own, and what conf_load() says to them. */
#include <sys/stat.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/conf/conf_fixture.h"

#include "common/base/alloc.h"

int conf_fixture_setup(void **state)
{
	struct conf_fixture *f = alloc_zero(1, sizeof(*f));

	unsetenv("QUREDIS_REDIS_URL");
	unsetenv("QUREDIS_LOG_LEVEL");
	unsetenv("CREDENTIALS_DIRECTORY");
	strcpy(f->dir, "/tmp/qr.conf.XXXXXX");
	if (mkdtemp(f->dir) == NULL)
		return -1;
	chmod(f->dir, 0755);
	snprintf(f->path, sizeof(f->path), "%s/quredis.conf", f->dir);
	*state = f;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void forget(struct conf_fixture *f)
{
	conf_free(f->conf);
	free(f->report);
	f->conf = NULL;
	f->report = NULL;
}

int conf_fixture_teardown(void **state)
{
	struct conf_fixture *f = *state;

	forget(f);
	nftw(f->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(f);
	return 0;
}

const char *conf_write_bytes(struct conf_fixture *f, const char *name, const void *data, size_t len, mode_t mode)
{
	static char path[256];
	const char *slash = strchr(name, '/');
	int fd;

	if (slash != NULL) {
		snprintf(path, sizeof(path), "%s/%.*s", f->dir, (int)(slash - name), name);
		if (mkdir(path, 0755) == 0)
			chmod(path, 0755);
	}
	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	unlink(path);	/* it may be read-only by now */
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd == -1 || write(fd, data, len) != (ssize_t)len || fchmod(fd, mode) == -1)
		abort();
	close(fd);
	return path;
}

const char *conf_write(struct conf_fixture *f, const char *name, const char *text)
{
	return conf_write_bytes(f, name, text, strlen(text), 0600);
}

/* Without the directory, which differs each time. */
static char *told(const struct conf_fixture *f, const struct conf_report *report)
{
	char *all = NULL, *at;
	size_t len = 0, dir = strlen(f->dir) + 1;
	FILE *out = open_memstream(&all, &len);

	conf_report_print(report, out);
	fclose(out);
	while ((at = strstr(all, f->dir)) != NULL)
		memmove(at, at + dir, strlen(at + dir) + 1);
	return all;
}

void conf_read(struct conf_fixture *f, unsigned flags)
{
	struct conf_report report;

	forget(f);
	f->conf = conf_load(f->path, flags, &report);
	f->errors = report.errors;
	f->report = told(f, &report);
	conf_report_free(&report);
}

void conf_read_text(struct conf_fixture *f, const char *text)
{
	conf_write(f, "quredis.conf", text);
	conf_read(f, CONF_LENIENT_HANDLERS);
}

void conf_read_with_password_file(struct conf_fixture *f, const char *file, unsigned flags)
{
	char text[512];

	snprintf(text, sizeof(text), "redis = { password_file = \"%s\"; };", file);
	conf_write(f, "quredis.conf", text);
	conf_read(f, flags);
}

bool conf_said(const struct conf_fixture *f, const char *text)
{
	return strstr(f->report, text) != NULL;
}

char *conf_printed(const struct conf *conf)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	conf_print(conf, out);
	fclose(out);
	return text;
}
