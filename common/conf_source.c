/*
 * Configuration files as bytes: found, opened once, checked on the descriptor and read whole. Who may
 * write the configuration commands the handlers, so a file that others can change is refused.
 */
#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "common/conf.h"

#include "common/alloc.h"
#include "common/conf_load.h"

#define FILE_MAX (1 << 20)

static char *check(const struct stat *st, const char *path, mode_t forbidden, bool any_owner)
{
	if (!S_ISREG(st->st_mode))
		return alloc_string(S_ISDIR(st->st_mode) ? "is a directory" : "is not a regular file");
	if (!any_owner && st->st_uid != 0 && st->st_uid != geteuid())
		return alloc_format("belongs to uid %u, expected root or uid %u: chown it", st->st_uid, geteuid());
	if ((st->st_mode & forbidden & 044) != 0)
		return alloc_format("can be read by others (mode %04o): chmod go-rwx %s", st->st_mode & 07777, path);
	if ((st->st_mode & forbidden) != 0)
		return alloc_format("can be written by others (mode %04o): chmod go-w %s", st->st_mode & 07777, path);
	if (st->st_size > FILE_MAX)
		return alloc_format("is larger than %d bytes", FILE_MAX);
	return NULL;
}

/* Reads until the end, at most FILE_MAX: the size that fstat told may be history. */
static char *read_all(int fd, size_t *len)
{
	char *data = alloc_zero(FILE_MAX + 1, 1), *copy;
	ssize_t n;

	*len = 0;
	do {
		n = read(fd, data + *len, FILE_MAX - *len);
		*len += n > 0 ? (size_t)n : 0;
	} while ((n > 0 && *len < FILE_MAX) || (n == -1 && errno == EINTR));
	copy = n == -1 ? NULL : alloc_copy(data, *len);
	explicit_bzero(data, *len);
	free(data);
	return copy;
}

char *conf_file_read(const char *path, mode_t forbidden, bool any_owner, size_t *len, mode_t *mode, char **why,
    bool *missing)
{
	struct stat st;
	char *data = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	*why = NULL;
	*missing = fd == -1 && (errno == ENOENT || errno == ENOTDIR);
	if (fd == -1) {
		*why = *missing ? alloc_string("does not exist") : alloc_format("cannot be read: %s", strerror(errno));
		return NULL;
	}
	if (fstat(fd, &st) == -1)
		*why = alloc_format("cannot be examined: %s", strerror(errno));
	else
		*why = check(&st, path, forbidden, any_owner);
	if (*why == NULL) {
		*mode = st.st_mode & 07777;
		data = read_all(fd, len);
		if (data == NULL)
			*why = alloc_format("cannot be read: %s", strerror(errno));
	}
	close(fd);
	return data;
}

static const char *intern(struct conf_loading *l, const char *path)
{
	struct conf *conf = l->conf;

	conf->files = alloc_resize(conf->files, l->nfiles + 2, sizeof(*conf->files));
	l->modes = alloc_resize(l->modes, l->nfiles + 1, sizeof(*l->modes));
	conf->files[l->nfiles] = alloc_string(path);
	conf->files[l->nfiles + 1] = NULL;
	l->modes[l->nfiles] = 0;
	return conf->files[l->nfiles++];
}

int conf_source_read(struct conf_loading *l, const char *path, struct conf_source *s)
{
	char *why;
	bool missing;

	*s = (struct conf_source){ .name = intern(l, path) };
	s->text = conf_file_read(path, S_IWGRP | S_IWOTH, false, &s->len, &l->modes[l->nfiles - 1], &why, &missing);
	if (s->text != NULL)
		return 0;
	conf_error(l, &(struct conf_origin){ CONF_ORIGIN_FILE, 0, s->name }, "the configuration file %s", why);
	free(why);
	return -1;
}

void conf_source_free(struct conf_source *s)
{
	if (s->text != NULL)
		explicit_bzero(s->text, s->len);	/* may hold an address with a password in it */
	free(s->text);
	free(s->wrapped);
	*s = (struct conf_source){0};
}

static int is_fragment(const struct dirent *d)
{
	size_t len = strlen(d->d_name);

	return d->d_name[0] != '.' && len > 5 && strcmp(d->d_name + len - 5, ".conf") == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* The directory counts like the files: who may write there may put a file of root's in. */
static bool directory_usable(struct conf_loading *l, const char *dir)
{
	struct stat st;
	struct conf_origin where = { CONF_ORIGIN_FILE, 0, dir };

	if (stat(dir, &st) == -1) {
		if (errno != ENOENT)
			conf_error(l, &where, "the directory cannot be examined: %s", strerror(errno));
		return false;
	}
	if (!S_ISDIR(st.st_mode))
		conf_error(l, &where, "is not a directory");
	else if (st.st_uid != 0 && st.st_uid != geteuid())
		conf_error(l, &where, "belongs to uid %u, expected root or uid %u: chown it", st.st_uid, geteuid());
	else if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		conf_error(l, &where, "can be written by others (mode %04o): chmod go-w %s", st.st_mode & 07777, dir);
	else
		return true;
	return false;
}

char **conf_fragments(struct conf_loading *l, const char *path)
{
	const char *slash = strrchr(path, '/');
	char *dir = alloc_format("%.*sconf.d", slash == NULL ? 0 : (int)(slash - path + 1), path);
	struct dirent **entries = NULL;
	char **list;
	int n = 0;

	if (directory_usable(l, dir)) {
		n = scandir(dir, &entries, is_fragment, by_bytes);
		if (n == -1)
			conf_error(l, &(struct conf_origin){ CONF_ORIGIN_FILE, 0, dir }, "the directory cannot be read: %s",
			    strerror(errno));
	}
	list = alloc_zero((size_t)(n < 0 ? 0 : n) + 1, sizeof(*list));
	for (int i = 0; i < n; i++) {
		list[i] = alloc_format("%s/%s", dir, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	free(dir);
	return list;
}
