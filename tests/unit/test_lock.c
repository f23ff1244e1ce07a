/* links: supervisor/lock.c common/process.c common/buffer.c common/alloc.c common/clock.c common/network_fs.c */
/* ldflags: -Wl,--wrap=fstatfs */
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "supervisor/lock.h"

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

static void the_identity_may_stand_in_a_registration(void **state)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:+-";
	struct lock a = { .fd = -1 }, b = { .fd = -1 };
	char error[256];
	pid_t holder;

	(void)state;
	assert_int_equal(lock_open(&a, path, error, sizeof(error)), 0);
	assert_int_equal(lock_try(&a, path, &holder, error, sizeof(error)), 0);
	assert_true(strlen(a.identity) > 40);
	assert_int_equal(strspn(a.identity, allowed), strlen(a.identity));
	assert_int_equal(lock_open(&b, path, error, sizeof(error)), 0);
	assert_string_equal(a.identity, b.identity);
	close(a.fd);
	close(b.fd);
}

static void one_at_a_time(void **state)
{
	struct lock a = { .fd = -1 }, b = { .fd = -1 };
	char error[256];
	pid_t holder;

	(void)state;
	assert_int_equal(lock_open(&a, path, error, sizeof(error)), 0);
	assert_int_equal(lock_try(&a, path, &holder, error, sizeof(error)), 0);
	assert_int_equal(lock_open(&b, path, error, sizeof(error)), 0);
	assert_int_equal(lock_try(&b, path, &holder, error, sizeof(error)), 1);
	assert_int_equal(holder, 0);		/* this program is no quredisd */
	close(a.fd);
	assert_int_equal(lock_try(&b, path, &holder, error, sizeof(error)), 0);
	close(b.fd);
}

static void a_file_that_was_replaced_is_no_lock(void **state)
{
	struct lock a = { .fd = -1 }, b = { .fd = -1 };
	struct stat ours, there;
	char error[256];
	pid_t holder;

	(void)state;
	assert_int_equal(lock_open(&a, path, error, sizeof(error)), 0);
	assert_int_equal(lock_open(&b, path, error, sizeof(error)), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(lock_try(&a, path, &holder, error, sizeof(error)), 0);
	assert_int_equal(fstat(a.fd, &ours), 0);
	assert_int_equal(stat(path, &there), 0);
	assert_int_equal(ours.st_ino, there.st_ino);
	assert_int_equal(lock_try(&b, path, &holder, error, sizeof(error)), 1);
	close(a.fd);
	close(b.fd);
}

static void on_a_network_file_system_it_is_refused(void **state)
{
	struct lock a = { .fd = -1 };
	char error[256];

	(void)state;
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
	close(a.fd);
}

static void a_link_is_not_followed(void **state)
{
	struct lock a = { .fd = -1 };
	char error[256];

	(void)state;
	unlink(path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(lock_open(&a, path, error, sizeof(error)), -1);
	assert_int_equal(a.fd, -1);
	assert_int_equal(unlink(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_identity_may_stand_in_a_registration),
		cmocka_unit_test(one_at_a_time),
		cmocka_unit_test(a_file_that_was_replaced_is_no_lock),
		cmocka_unit_test(on_a_network_file_system_it_is_refused),
		cmocka_unit_test(a_link_is_not_followed),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
