#include <sys/stat.h>
#include <sys/un.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/conf/conf.h"
#include "supervisor/children/keeper.h"
#include "tests/unit/unit.h"

static char parent[32], dir[128];
static struct conf conf;
static char error[512];

static int setup(void **state)
{
	(void)state;
	strcpy(parent, "/tmp/quredis-keeper.XXXXXX");
	if (mkdtemp(parent) == NULL)
		return -1;
	snprintf(dir, sizeof(dir), "%s/redis", parent);
	conf.redis.dir = dir;
	conf.supervisor.as.uid = geteuid();
	error[0] = '\0';
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(dir);
	rmdir(dir);
	return rmdir(parent);
}

static int check(void)
{
	return keeper_check(&conf, error, sizeof(error));
}

static void refused(const char *why)
{
	assert_int_equal(check(), -1);
	assert_memory_equal(error, "redis.dir ", 10);
	assert_non_null(strstr(error, conf.redis.dir));
	if (strstr(error, why) == NULL)
		fail_msg("%s, without: %s", error, why);
}

TEST(a_directory_that_is_missing_is_made_private, setup, teardown)
{
	mode_t old = umask(0);
	struct stat st;

	assert_int_equal(check(), 0);
	umask(old);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(check(), 0);		/* the next start finds it */
}

TEST(the_directory_above_must_exist, setup, teardown)
{
	snprintf(dir, sizeof(dir), "%s/none/redis", parent);
	refused("No such file or directory");
}

TEST(a_directory_that_others_may_enter_is_refused, setup, teardown)
{
	static const mode_t modes[] = { 0701, 0710, 0704, 0777 };

	assert_int_equal(mkdir(dir, 0700), 0);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		assert_int_equal(chmod(dir, modes[i]), 0);
		refused("others may enter it; it must have mode 0700");
	}
}

TEST(a_directory_of_another_user_is_refused, setup, teardown)
{
	conf.redis.dir = (char *)(geteuid() == 0 ? dir : "/");
	if (geteuid() == 0) {
		assert_int_equal(mkdir(dir, 0700), 0);
		assert_int_equal(chown(dir, 12345, (gid_t)-1), 0);
	}
	refused("belongs to another user");
}

TEST(a_file_is_no_directory, setup, teardown)
{
	int fd = open(dir, O_CREAT | O_WRONLY | O_CLOEXEC, 0700);

	assert_int_not_equal(fd, -1);
	close(fd);
	refused("is no directory");
}

/* Both the socket's name and its NUL must fit. */
TEST(a_name_that_leaves_no_room_for_a_socket_is_refused, setup, teardown)
{
	size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - sizeof("/redis.sock");

	memset(dir + strlen(parent) + 1, 'x', sizeof(dir) - strlen(parent) - 1);
	dir[most + 1] = '\0';
	refused("too long for the name of a socket in it");
	dir[most] = '\0';
	assert_int_equal(check(), 0);
}

UNIT_MAIN(NULL, NULL)
