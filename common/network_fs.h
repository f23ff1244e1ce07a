#ifndef COMMON_NETWORK_FS_H
#define COMMON_NETWORK_FS_H

/* "nfs": what an open file lies on, if that is a network file system, where flock(2) proves nothing: it is local to
 * this host, or lost with the connection. NULL: it is none that is known. */
const char *network_fs_name(int fd);

#endif
