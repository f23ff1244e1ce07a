/* The files of a systemd service: found, read in systemd's order, and their settings. What they mean is doctor_unit.c's. */
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/unit_file.h"

#include "common/alloc.h"
#include "common/nitems.h"

#define UNIT_PATH "/etc/systemd/system:/run/systemd/system:/usr/local/lib/systemd/system:/usr/lib/systemd/system:/lib/systemd/system"
#define BLANKS " \t\r\n"
#define SPAN_MAX_US INT64_C(1000000000000000000)	/* longer than anybody waits, and no overflow */

/* ---- settings ---- */

static void set(struct unit_file *u, const char *key, const char *value)
{
	u->settings = alloc_resize(u->settings, u->n + 1, sizeof(*u->settings));
	u->settings[u->n++] = (struct unit_setting){ alloc_string(key), alloc_string(value) };
}

const char *unit_file_get(const struct unit_file *u, const char *key)
{
	for (size_t i = u->n; i-- > 0;)
		if (strcmp(u->settings[i].key, key) == 0)
			return u->settings[i].value[0] == '\0' ? NULL : u->settings[i].value;	/* "": back to the default */
	return NULL;
}

void unit_file_free(struct unit_file *u)
{
	for (size_t i = 0; i < u->n; i++) {
		free(u->settings[i].key);
		free(u->settings[i].value);
	}
	free(u->settings);
	free(u->path);
	*u = (struct unit_file){0};
}

/* ---- one file ---- */

static char *trimmed(char *s)
{
	size_t len;

	s += strspn(s, BLANKS);
	len = strlen(s);
	while (len > 0 && strchr(BLANKS, s[len - 1]) != NULL)
		s[--len] = '\0';
	return s;
}

static void take_line(struct unit_file *u, char *line, bool *service)
{
	char *equals;

	line = trimmed(line);
	if (line[0] == '[') {
		*service = strcmp(line, "[Service]") == 0;
		return;
	}
	equals = strchr(line, '=');
	if (!*service || equals == NULL || line[0] == '#' || line[0] == ';')
		return;
	*equals = '\0';
	set(u, trimmed(line), trimmed(equals + 1));
}

/* A backslash at the end goes on with the next line. */
static char *joined(char *before, const char *line)
{
	char *both = alloc_format("%s%s", before == NULL ? "" : before, line);

	free(before);
	return both;
}

static void read_settings(struct unit_file *u, const char *path)
{
	FILE *f = fopen(path, "re");
	char *line = NULL, *whole = NULL;
	bool service = false;
	size_t size = 0;

	if (f == NULL)
		return;
	while (getline(&line, &size, f) != -1) {
		size_t len;

		line[strcspn(line, "\r\n")] = '\0';
		len = strlen(line);
		if (len > 0 && line[len - 1] == '\\') {
			line[len - 1] = ' ';
			whole = joined(whole, line);
			continue;
		}
		whole = joined(whole, line);
		take_line(u, whole, &service);
		free(whole);
		whole = NULL;
	}
	free(whole);
	free(line);
	fclose(f);
}

/* ---- drop-ins ---- */

struct drop_ins {
	struct drop_in { char *name, *path; } *list;
	size_t n;
};

static bool is_known(const struct drop_ins *d, const char *name)
{
	for (size_t i = 0; i < d->n; i++)
		if (strcmp(d->list[i].name, name) == 0)
			return true;
	return false;
}

/* The same name in a directory that counts less is hidden. */
static void find_drop_ins(struct drop_ins *d, const char *directory)
{
	DIR *dir = opendir(directory);
	struct dirent *e;

	while (dir != NULL && (e = readdir(dir)) != NULL) {
		size_t len = strlen(e->d_name);

		if (len <= 5 || strcmp(e->d_name + len - 5, ".conf") != 0 || is_known(d, e->d_name))
			continue;
		d->list = alloc_resize(d->list, d->n + 1, sizeof(*d->list));
		d->list[d->n++] = (struct drop_in){ alloc_string(e->d_name), alloc_format("%s/%s", directory, e->d_name) };
	}
	if (dir != NULL)
		closedir(dir);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct drop_in *)a)->name, ((const struct drop_in *)b)->name);
}

static void read_drop_ins(struct unit_file *u, struct drop_ins *d)
{
	if (d->n > 0)
		qsort(d->list, d->n, sizeof(*d->list), by_name);
	for (size_t i = 0; i < d->n; i++) {
		if (u->path != NULL)
			read_settings(u, d->list[i].path);
		free(d->list[i].name);
		free(d->list[i].path);
	}
	free(d->list);
}

void unit_file_read(struct unit_file *u, const char *name)
{
	const char *where = getenv("SYSTEMD_UNIT_PATH");
	char *path = alloc_string(where != NULL && where[0] != '\0' ? where : UNIT_PATH), *rest = path, *directory;
	struct drop_ins drop_ins = {0};

	*u = (struct unit_file){0};
	while ((directory = strsep(&rest, ":")) != NULL) {
		char *file = alloc_format("%s/%s", directory, name), *beside = alloc_format("%s.d", file);

		if (u->path == NULL && access(file, R_OK) == 0) {
			u->path = alloc_string(file);
			read_settings(u, file);
		}
		find_drop_ins(&drop_ins, beside);
		free(beside);
		free(file);
	}
	read_drop_ins(u, &drop_ins);
	free(path);
}

/* ---- times ---- */

static int64_t unit_of(const char *name, size_t len)
{
	static const struct { const char *name; int64_t us; } units[] = {
		{ "", 1000000 }, { "us", 1 }, { "usec", 1 }, { "ms", 1000 }, { "msec", 1000 }, { "s", 1000000 }, { "sec", 1000000 },
		{ "second", 1000000 }, { "seconds", 1000000 }, { "m", 60000000 }, { "min", 60000000 }, { "minute", 60000000 },
		{ "minutes", 60000000 }, { "h", INT64_C(3600000000) }, { "hr", INT64_C(3600000000) }, { "hour", INT64_C(3600000000) },
		{ "hours", INT64_C(3600000000) }, { "d", INT64_C(86400000000) }, { "day", INT64_C(86400000000) },
		{ "days", INT64_C(86400000000) }, { "w", INT64_C(604800000000) }, { "week", INT64_C(604800000000) },
		{ "weeks", INT64_C(604800000000) },
	};

	for (size_t i = 0; i < nitems(units); i++)
		if (strlen(units[i].name) == len && strncmp(units[i].name, name, len) == 0)
			return units[i].us;
	return 0;
}

int64_t unit_file_time(const char *text)
{
	int64_t total_us = 0;

	if (strcmp(text, "infinity") == 0)
		return UNIT_TIME_INFINITY;
	for (const char *p = text; *p != '\0';) {
		char *end;
		double n = strtod(p, &end);
		size_t len = strspn(end + strspn(end, " "), "abcdefghijklmnopqrstuvwxyz");
		int64_t unit = unit_of(end + strspn(end, " "), len);

		if (end == p || unit == 0 || !(n >= 0 && n * (double)unit < SPAN_MAX_US) || total_us > SPAN_MAX_US)
			return UNIT_TIME_BAD;
		total_us += (int64_t)(n * (double)unit);
		p = end + strspn(end, " ") + len;
		p += strspn(p, " ");
	}
	return text[0] == '\0' ? UNIT_TIME_BAD : total_us / 1000;
}
