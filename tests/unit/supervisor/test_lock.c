/* ldflags: -Wl,--wrap=fstatfs */
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/host/lock.h"
#include "supervisor/host/pid_file.h"
#include "tests/unit/unit.h"

static char directory[] = "/tmp/quredis-lock.XXXXXX";
static char path[64];
static uint32_t magic;		/* of the file system the file pretends to lie on; 0: the real one */

int __real_fstatfs(int fd, struct statfs *fs);
int __wrap_fstatfs(int fd, struct statfs *fs);

int __wrap_fstatfs(int fd, struct statfs *fs)
{
	int r = __real_fstatfs(fd, fs);

	if (magic != 0)
		fs->f_type = (__typeof__(fs->f_type))magic;
	return r;
}

static int setup(void **state)
{
	(void)state;
	if (mkdtemp(directory) == NULL)
		return -1;
	snprintf(path, sizeof(path), "%s/lock", directory);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(directory);
}

/* The master keeps its lock until it ends. */
static void end_lock(struct lock *l)
{
	close(l->fd);
	lock_text_free(&l->text);
	l->text.users = (struct leftovers_users){0};
}

TEST(the_identity_may_stand_in_a_registration)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:+-";
	struct lock a = { .fd = -1 }, b = { .fd = -1 };
	char error[256];
	pid_t holder;

	assert_int_equal(lock_open(&a, path, error, sizeof(error)), 0);
	assert_int_equal(lock_try(&a, path, &holder, error, sizeof(error)), 0);
	assert_true(strlen(a.identity) > 40);
	assert_int_equal(strspn(a.identity, allowed), strlen(a.identity));
	assert_int_equal(lock_open(&b, path, error, sizeof(error)), 0);
	assert_string_equal(a.identity, b.identity);
	end_lock(&a);
	end_lock(&b);
}

TEST(one_at_a_time)
{
	struct lock a = { .fd = -1 }, b = { .fd = -1 };
	char error[256];
	pid_t holder;

	assert_int_equal(lock_open(&a, path, error, sizeof(error)), 0);
	assert_int_equal(lock_try(&a, path, &holder, error, sizeof(error)), 0);
	assert_int_equal(lock_open(&b, path, error, sizeof(error)), 0);
	assert_int_equal(lock_try(&b, path, &holder, error, sizeof(error)), 1);
	assert_int_equal(holder, 0);		/* this program is no quredisd */
	end_lock(&a);
	assert_int_equal(lock_try(&b, path, &holder, error, sizeof(error)), 0);
	end_lock(&b);
}

TEST(a_file_that_was_replaced_is_no_lock)
{
	struct lock a = { .fd = -1 }, b = { .fd = -1 };
	struct stat ours, there;
	char error[256];
	pid_t holder;

	assert_int_equal(lock_open(&a, path, error, sizeof(error)), 0);
	assert_int_equal(lock_open(&b, path, error, sizeof(error)), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(lock_try(&a, path, &holder, error, sizeof(error)), 0);
	assert_int_equal(fstat(a.fd, &ours), 0);
	assert_int_equal(stat(path, &there), 0);
	assert_int_equal(ours.st_ino, there.st_ino);
	assert_int_equal(lock_try(&b, path, &holder, error, sizeof(error)), 1);
	end_lock(&a);
	end_lock(&b);
}

TEST(on_a_network_file_system_it_is_refused)
{
	struct lock a = { .fd = -1 };
	char error[256];

	magic = 0xff534d42;		/* its top bit makes it negative where f_type is signed */
	assert_int_equal(lock_open(&a, path, error, sizeof(error)), -1);
	assert_non_null(strstr(error, "cifs"));
	assert_non_null(strstr(error, path));
	magic = 0x6969;
	assert_int_equal(lock_open(&a, path, error, sizeof(error)), -1);
	assert_non_null(strstr(error, "nfs"));
	magic = 0x01021994;		/* tmpfs */
	assert_int_equal(lock_open(&a, path, error, sizeof(error)), 0);
	magic = 0;
	end_lock(&a);
}

static mode_t mode_of(const char *name)
{
	struct stat st;

	assert_int_equal(stat(name, &st), 0);
	return st.st_mode & 07777;
}

static void make_file(const char *name, mode_t mode)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_int_not_equal(fd, -1);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

TEST(nobody_else_can_open_it)
{
	struct lock a = { .fd = -1 };
	mode_t old = umask(0);
	char error[256];

	unlink(path);
	assert_int_equal(lock_open(&a, path, error, sizeof(error)), 0);
	assert_int_equal(mode_of(path), 0600);
	make_file(path, 0666);
	assert_int_equal(lock_open(&a, path, error, sizeof(error)), 0);
	assert_int_equal(mode_of(path), 0600);
	umask(old);
	end_lock(&a);
}

static void refused(const char *why)
{
	struct lock a = { .fd = -1 };
	struct pid_file p = { .fd = -1 };
	char error[256];
	pid_t holder;

	assert_int_equal(lock_open(&a, path, error, sizeof(error)), -1);
	assert_int_equal(a.fd, -1);
	assert_non_null(strstr(error, why));
	assert_int_equal(pid_file_open(&p, path, &holder, error, sizeof(error)), -1);
	assert_int_equal(p.fd, -1);
	assert_non_null(strstr(error, why));
}

TEST(a_link_is_not_followed)
{
	unlink(path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	refused("is a symbolic link");
	assert_int_equal(unlink(path), 0);
}

/* Who may write the directory could have put any of these there. */
TEST(what_another_user_put_there_is_refused)
{
	char other[80];

	unlink(path);
	snprintf(other, sizeof(other), "%s.other", path);
	make_file(other, 0644);
	assert_int_equal(link(other, path), 0);
	refused("second name");
	assert_int_equal(mode_of(other), 0644);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(other), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	refused("not a regular file");
	assert_int_equal(unlink(path), 0);
	if (geteuid() == 0) {
		make_file(path, 0644);
		assert_int_equal(chown(path, 65534, 65534), 0);
		refused("belongs to another user");
		assert_int_equal(unlink(path), 0);
	}
}

TEST(a_pid_file)
{
	struct pid_file p = { .fd = -1 }, q = { .fd = -1 };
	char error[256], text[16] = "";
	pid_t holder;
	int fd;

	make_file(path, 0644);
	assert_int_equal(pid_file_open(&p, path, &holder, error, sizeof(error)), 0);
	assert_int_equal(mode_of(path), 0600);
	fd = open(path, O_RDONLY);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	assert_int_equal(atoi(text), getpid());
	close(fd);
	assert_int_equal(pid_file_open(&q, path, &holder, error, sizeof(error)), 1);
	assert_int_equal(q.fd, -1);
	pid_file_remove(&p);
	assert_int_equal(access(path, F_OK), -1);
	pid_file_remove(&q);		/* that is none */
	assert_int_equal(pid_file_open(&q, path, &holder, error, sizeof(error)), 0);
	pid_file_close(&q);		/* as a child does */
	assert_int_equal(access(path, F_OK), 0);
}

UNIT_MAIN(setup, teardown)
