/* Sockets in the file system that only root, the owner and its group may use. */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <errno.h>
#include <unistd.h>

#include <bsd/string.h>
#include <bsd/unistd.h>

#include "common/base/unix_socket.h"

#define GROUPS_MAX 256

/* Returns -1 with errno ENAMETOOLONG. */
static int fill_address(struct sockaddr_un *sa, const char *path)
{
	*sa = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (strlcpy(sa->sun_path, path, sizeof(sa->sun_path)) < sizeof(sa->sun_path))
		return 0;
	errno = ENAMETOOLONG;
	return -1;
}

static int bind_private(int fd, const struct sockaddr_un *sa)
{
	mode_t old = umask(0117);
	int r = bind(fd, (const struct sockaddr *)sa, sizeof(*sa));

	umask(old);
	return r;
}

static int remove_stale(const char *path)
{
	struct stat st;

	if (lstat(path, &st) == -1)
		return errno == ENOENT ? 0 : -1;
	if (!S_ISSOCK(st.st_mode)) {
		errno = EEXIST;
		return -1;
	}
	return unlink(path);
}

int unix_socket_listen(const char *path, int backlog, struct unix_socket_file *file)
{
	struct sockaddr_un sa;
	struct stat st;
	int fd, error;

	if (fill_address(&sa, path) == -1 || remove_stale(path) == -1)
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd == -1)
		return -1;
	if (bind_private(fd, &sa) == 0 && lstat(path, &st) == 0 && listen(fd, backlog) == 0) {
		*file = (struct unix_socket_file){ st.st_dev, st.st_ino };
		return fd;
	}
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

void unix_socket_remove(const char *path, const struct unix_socket_file *file)
{
	struct stat st;

	if (lstat(path, &st) == 0 && st.st_dev == file->device && st.st_ino == file->inode)
		unlink(path);
}

bool unix_socket_answers(const char *path)
{
	struct sockaddr_un sa;
	bool answers;
	int fd;

	if (fill_address(&sa, path) == -1)
		return false;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* EAGAIN: its backlog is full */
	answers = fd != -1 && (connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) == 0 || errno == EAGAIN);
	if (fd != -1)
		close(fd);
	return answers;
}

bool unix_socket_peer_is_member(int fd, gid_t group)
{
	gid_t groups[GROUPS_MAX], first;
	socklen_t size = sizeof(groups);
	uid_t uid;

	if (getpeereid(fd, &uid, &first) == -1)
		return false;
	if (first == group)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) == -1)
		return false;
	for (size_t i = 0; i < size / sizeof(groups[0]); i++)
		if (groups[i] == group)
			return true;
	return false;
}

bool unix_socket_peer_is_allowed(int fd)
{
	uid_t uid;
	gid_t gid;

	return getpeereid(fd, &uid, &gid) == 0 &&
	    (uid == 0 || uid == geteuid() || unix_socket_peer_is_member(fd, getegid()));
}
