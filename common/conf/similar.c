/* Finds the file whose name is most similar to that of one that is missing: "did you mean /usr/bin/python3?" */
#include <dirent.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/base.h"
#include "common/conf/load.h"

#define NAMES_MAX 8192		/* of a directory; others are not looked at */

static char *similar_in(const char *dir, const char *name)
{
	const char **names = alloc_zero(NAMES_MAX, sizeof(*names)), *similar;
	DIR *d = opendir(dir);
	struct dirent *e;
	char *path;
	size_t n = 0;

	while (d != NULL && n < NAMES_MAX && (e = readdir(d)) != NULL)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			names[n++] = alloc_string(e->d_name);
	if (d != NULL)
		closedir(d);
	similar = nearest(name, names, n);
	path = similar == NULL ? NULL : alloc_format("%s/%s", strcmp(dir, "/") == 0 ? "" : dir, similar);
	for (size_t i = 0; i < n; i++)
		free((void *)(uintptr_t)names[i]);
	free(names);
	return path;
}

char *conf_similar_path(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *dir = alloc_copy(path, slash == path ? 1 : (size_t)(slash - path)), *similar = similar_in(dir, slash + 1);

	free(dir);
	return similar;
}

char *conf_similar_in_path(const char *dirs, const char *name)
{
	char *copy = alloc_string(dirs), *rest = copy, *dir, *similar = NULL;

	while (similar == NULL && (dir = strsep(&rest, ":")) != NULL)
		similar = similar_in(dir, name);
	free(copy);
	return similar;
}
