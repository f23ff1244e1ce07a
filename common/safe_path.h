#ifndef COMMON_SAFE_PATH_H
#define COMMON_SAFE_PATH_H

#include <sys/types.h>

#include <stdbool.h>

/*
 * Whether only root and one user can change what a path names.
 *
 * The rule is that of OpenSSH's safe_path() (misc.c there; StrictModes and AuthorizedKeysCommand in sshd_config(5)): every
 * component up to "/" is owned by root or the user, and neither its group nor others can write it. Two points differ.
 *
 *  - Every link on the way is a component as well: it is owned by root or the user, and the path that it leads to follows the
 *    same rule up to "/". sshd resolves the path first, and looks only at where it leads.
 *  - A directory with the sticky bit, as /tmp, may be writable if the component in it exists. There only root, the owner of the
 *    directory and the owner of the entry can rename or remove an entry, and by this rule both are root or the user.
 *
 * The mode shows what access control lists allow: their mask is in the bits of the group.
 */

/*
 * path is absolute. NULL: it is safe, or there is nothing that could be changed. Else a new string that names the component,
 * what is wrong with it, and how to mend it; *everybody: not only its owner or group, but every user can change it.
 */
char *safe_path_flaw(const char *path, uid_t user, bool *everybody);

#endif
