#ifndef COMMON_BASE_UNIX_SOCKET_H
#define COMMON_BASE_UNIX_SOCKET_H

#include <sys/types.h>

#include <stdbool.h>

/* Tells which file the socket at a path is; all 0: none. */
struct unix_socket_file {
	dev_t device;
	ino_t inode;
};

/*
 * Creates a socket at path, which has mode 0660 from the first moment, and listens on it. Replaces a socket that exists
 * there; any other file is an error (EEXIST). Returns a non-blocking descriptor, which the caller closes, and writes to
 * *file which file the socket is; or returns -1 with errno, and does not change *file.
 */
int unix_socket_listen(const char *path, int backlog, struct unix_socket_file *file);

/* Removes the socket at path, unless another process has replaced it: then the file at path is not `file`. */
void unix_socket_remove(const char *path, const struct unix_socket_file *file);

/* true: a process accepts connections at path. */
bool unix_socket_answers(const char *path);

/* The peer of a connection is root, this process's user, or a member of this process's group. */
bool unix_socket_peer_is_allowed(int fd);

/* The group is the first or a supplementary one of the peer. */
bool unix_socket_peer_is_member(int fd, gid_t group);

#endif
