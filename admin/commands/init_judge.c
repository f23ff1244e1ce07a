/* Asks the judge of a start about the files of quredis init: after they are written, or in a dry run instead. */
#include <sys/mman.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "admin/commands/init_judge.h"

#include "common/base/base.h"
#include "common/conf/conf.h"

/* quredisd refuses files in a directory that others can change. It starts without an interpreter, and says which
 * package has it. Frees both. */
static int take_judgement(struct admin *a, const char *dir, struct conf *conf, struct conf_report *report)
{
	int rc = 0;

	if (conf == NULL) {
		conf_report_print(report, stderr);
		rc = admin_fail(a, EX_CANTCREAT, "%s: quredisd would not start there; nothing was written", dir);
	}
	for (size_t i = 0; rc == 0 && i < report->n; i++)
		if (report->problems[i].blocks)
			admin_note("%s", report->problems[i].text);
	conf_report_free(report);
	conf_free(conf);
	return rc;
}

int init_judge_written(struct admin *a, const char *dir, const char *name)
{
	char *path = alloc_format("%s/%s", dir, name);
	struct conf_report report;
	struct conf *conf = conf_load(path, CONF_LOOK, &report);

	free(path);
	return take_judgement(a, dir, conf, &report);
}

/* Of the directory that exists, in which the first entry would be made. */
static int check_rights(struct admin *a, const char *place)
{
	char *dir = alloc_string(place);
	int error = 0;

	while (error == 0 && faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) == -1)
		if (errno != ENOENT || strrchr(dir, '/') == dir)
			error = errno;
		else
			*strrchr(dir, '/') = '\0';
	free(dir);
	return error == 0 ? 0 : admin_fail(a, EX_CANTCREAT, "%s: %s", place, strerror(error));
}

/* The operator knows the file by the name that it would have. */
static void name_problems(struct conf_report *report, const char *read, const char *planned)
{
	size_t len = strlen(read);

	for (size_t i = 0; i < report->n; i++) {
		struct conf_problem *problem = &report->problems[i];
		char *text = problem->text;

		if (problem->place_len < len || strncmp(text, read, len) != 0)
			continue;
		problem->text = alloc_format("%s%s", planned, text + len);
		problem->place_len += strlen(planned) - len;
		free(text);
	}
}

/* The configuration lies in memory, where the same code reads it. */
int init_judge_planned(struct admin *a, const char *dir, const char *name, const char *conf)
{
	int fd = memfd_create(name, MFD_CLOEXEC), rc;
	char *path = alloc_format("/proc/self/fd/%d", fd), *planned = alloc_format("%s/%s", dir, name);
	struct conf_report report;
	struct conf *loaded;

	if (fd == -1 || fchmod(fd, 0600) == -1 || dprintf(fd, "%s", conf) < 0) {
		rc = admin_fail(a, EX_OSERR, "memory file: %s", strerror(errno));
	} else {
		loaded = conf_load_planned(path, dir, &report);
		name_problems(&report, path, planned);
		rc = take_judgement(a, dir, loaded, &report);
	}
	if (fd != -1)
		close(fd);
	free(path);
	free(planned);
	return rc == -1 ? -1 : check_rights(a, dir);
}
