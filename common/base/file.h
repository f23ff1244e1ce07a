#ifndef COMMON_BASE_FILE_H
#define COMMON_BASE_FILE_H

#include <sys/stat.h>
#include <sys/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

/*
 * Checks a file that only this process should write, and that was opened with O_NOFOLLOW. Another user who can write to
 * the directory could have created it first: as a file of their own, to read what is written, or as a hard link to a
 * file that must not be changed. user: who writes it, besides root. Returns the flaw, for a message "PATH FLAW"
 * (static); NULL: there is none.
 */
static inline const char *file_flaw_for(const struct stat *st, uid_t user)
{
	if (!S_ISREG(st->st_mode))
		return "is not a regular file";
	if (st->st_uid != 0 && st->st_uid != user)
		return "belongs to another user: remove it";
	return st->st_nlink > 1 ? "has a second name, a hard link: remove it" : NULL;
}

static inline const char *file_flaw(const struct stat *st)
{
	return file_flaw_for(st, geteuid());
}

/*
 * True: no process that sees our mounts can write to what path names, whatever its mode says, since its file system is
 * mounted read-only. Kubernetes mounts a ConfigMap so, with directories of mode 0777. Whoever mounted it elsewhere to
 * write there is trusted, as a container beside ours. A mount of our own, as systemd makes it for ProtectSystem=, hides
 * nothing from other users: so it counts only in the namespace of process 1. False also if that cannot be found out.
 */
bool file_is_frozen(const char *path);

/*
 * Checks that only root and one user can change what a path names.
 *
 * The rule is that of OpenSSH's safe_path() (misc.c there; StrictModes and AuthorizedKeysCommand in sshd_config(5)):
 * every component up to "/" is owned by root or the user, and neither its group nor others can write it. Three points
 * differ.
 *
 *  - Every link on the way is a component as well: it is owned by root or the user, and the path that it leads to
 *    follows the same rule up to "/". sshd resolves the path first, and looks only at where it leads.
 *  - The bits of the mode do not count where file_is_frozen().
 *  - A directory with the sticky bit, as /tmp, may be writable if the component in it exists. There only root, the
 *    owner of the directory and the owner of the entry can rename or remove an entry, and by this rule both are root or
 *    the user.
 *
 * The mode shows what access control lists allow: their mask is in the bits of the group.
 *
 * path is absolute. NULL: it is safe, or there is nothing that could be changed. Else a new string that names the
 * component, its flaw, and the repair; *everybody: every user can change it, not only its owner or group.
 */
char *file_path_flaw(const char *path, uid_t user, bool *everybody);

/*
 * For paths that we write to. A link of another user on the way decides where the bytes go, whatever else of the path
 * is safe: such a path is refused when the configuration is loaded and again when the path is opened. user: who writes.
 * A new string: the link and its owner; NULL: there is none.
 */
char *file_link_flaw(const char *path, uid_t user);
/*
 * The first directory that may_enter() refuses on the way to what an absolute path names, also behind links; a
 * directory that the path names is one of them. A new string; NULL: there is none, or a component is missing before.
 */
typedef bool file_may_enter(void *arg, const char *dir, const struct stat *st);
char *file_closed_directory(const char *path, file_may_enter *may_enter, void *arg);
/*
 * Opens a directory to write into it. Between the check of a component and the opening no link can come into the path.
 * The directory must belong to root or the user. -1: *flaw is a new string.
 */
int file_open_directory(const char *path, uid_t user, char **flaw);

/* The name of the network file system that an open file lies on, such as "nfs". There flock(2) proves nothing: the lock
 * is local to this host, or lost with the connection. NULL: the file lies on no known one. */
const char *file_network_fs(int fd);

#endif
