#ifndef COMMON_OWN_FILE_H
#define COMMON_OWN_FILE_H

#include <sys/stat.h>

#include <stddef.h>
#include <unistd.h>

/*
 * Checks a file that only this process should write, and that was opened with O_NOFOLLOW. Another user who can write to the
 * directory could have created it first: as a file of their own, to read what is written, or as a hard link to a file that
 * must not be changed. Returns the flaw, for a message "PATH FLAW" (static); NULL: there is none.
 */
static inline const char *own_file_flaw(const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		return "is not a regular file";
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return "belongs to another user: remove it";
	return st->st_nlink > 1 ? "has a second name, a hard link: remove it" : NULL;
}

#endif
