/* links: tests/unit/descriptors.c */
/* ldflags: -Wl,--wrap=setmntent */
/* Cgroups of dead supervisors: found by a name that nobody else can know, killed unless their lock is held, removed. */
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <mntent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>
#include <cmocka.h>

#include "common/base/alloc.h"
#include "common/base/cgroup.h"
#include "common/base/leftovers.h"
#include "common/base/process.h"
#include "tests/unit/descriptors.h"

static const unsigned char key[LEFTOVERS_KEY_SIZE] = "a key";
static const char *mounts;		/* the table of mounts; NULL: the real one */

FILE *__real_setmntent(const char *file, const char *type);
FILE *__wrap_setmntent(const char *file, const char *type);

FILE *__wrap_setmntent(const char *file, const char *type)
{
	return __real_setmntent(mounts == NULL ? file : mounts, type);
}

static void name_group(uint64_t boot, char out[CGROUP_NAME_SIZE])
{
	char secret[LEFTOVERS_TOKEN_SIZE];

	leftovers_token(key, boot << 32 | (uint64_t)getpid(), secret);
	cgroup_name(secret, out);
}

static struct cgroup_dead kill_group(const char *name, int64_t timeout_ms)
{
	struct cgroup_dead group = { .dir = -1 };

	strlcpy(group.name, name, sizeof(group.name));
	cgroup_kill(&group, 1, timeout_ms);
	return group;
}

/* Names of a boot under two lock files have nothing in common, nor do name and token. */
static void a_name_is_of_the_token(void **unused)
{
	unsigned char other[LEFTOVERS_KEY_SIZE] = "b key";
	char a[CGROUP_NAME_SIZE], b[CGROUP_NAME_SIZE], secret[LEFTOVERS_TOKEN_SIZE];

	(void)unused;
	leftovers_token(key, 7, secret);
	cgroup_name(secret, a);
	assert_int_equal(strncmp(a, "quredis-", 8), 0);
	assert_int_equal(strlen(a), 8 + 16);
	assert_null(strstr(secret, a + 8));
	cgroup_name(secret, b);
	assert_string_equal(a, b);
	leftovers_token(other, 7, secret);
	cgroup_name(secret, b);
	assert_string_not_equal(a, b);
}

/* ---- a hierarchy of plain files ---- */

static char hierarchy[] = "/tmp/quredis-cgroups.XXXXXX", table[64];

static void fake_file(const char *group, const char *name, const char *text)
{
	char *path = alloc_format("%s/%s/%s", hierarchy, group, name);
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	free(path);
}

static int fake_group(const char *name, const char *events)
{
	char *path = alloc_format("%s/%s", hierarchy, name);
	int dir;

	assert_int_equal(mkdir(path, 0700), 0);
	fake_file(name, "cgroup.procs", "");
	fake_file(name, "cgroup.kill", "");
	fake_file(name, "cgroup.events", events);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(path);
	return dir;
}

static bool was_killed(int dir)
{
	struct stat st;

	assert_int_equal(fstatat(dir, "cgroup.kill", &st, 0), 0);
	return st.st_size > 0;
}

static int fake_hierarchy(void **unused)
{
	FILE *f;

	(void)unused;
	if (mkdtemp(hierarchy) == NULL)
		return -1;
	snprintf(table, sizeof(table), "%s/mounts", hierarchy);
	f = fopen(table, "w");
	fprintf(f, "cgroup2 %s cgroup2 rw 0 0\n", hierarchy);
	fclose(f);
	mounts = table;
	return 0;
}

static int remove_hierarchy(void **unused)
{
	char *command = alloc_format("rm -r %s", hierarchy);
	int rc = system(command);

	(void)unused;
	free(command);
	memcpy(strchr(hierarchy, '.'), ".XXXXXX", 7);
	mounts = NULL;
	return rc;
}

/* Of all names that are looked for only those die whose lock is free, wherever they are. */
static void only_the_dead_are_killed(void **unused)
{
	struct cgroup_dead of[4] = { { .name = "quredis-held" }, { .name = "quredis-dead" }, { .name = "quredis-none" }, { .name = "quredis-deep" } };
	int held = fake_group("quredis-held", "populated 1\n"), dead = fake_group("quredis-dead", "populated 0\n");
	int stranger = fake_group("quredis-stranger", "populated 1\n"), deep;

	(void)unused;
	deep = fake_group("quredis-stranger/quredis-deep", "populated 0\n");
	assert_int_equal(flock(held, LOCK_SH | LOCK_NB), 0);		/* its master lives */
	cgroup_kill(of, 4, 20000);
	assert_true(of[0].held);
	assert_int_equal(of[0].left, 1);
	assert_int_equal(of[0].killed, 0);
	assert_false(was_killed(held));
	assert_false(of[1].held || of[2].held || of[3].held);
	assert_int_equal(of[1].left + of[2].left + of[3].left, 0);
	assert_true(was_killed(dead) && was_killed(deep));
	assert_false(was_killed(stranger));
	assert_int_equal(flock(held, LOCK_UN), 0);
	assert_int_equal(flock(dead, LOCK_EX | LOCK_NB), 0);		/* nothing is kept */
	cgroup_kill(of, 1, 0);						/* it died meanwhile */
	assert_true(!of[0].held && was_killed(held));
	assert_int_equal(of[0].left, 1);				/* the kernel says so, the list shows none */
	close(held);
	close(dead);
	close(stranger);
	close(deep);
}

/* The outer one is killed with all that is in it. */
static void one_name_below_itself(void **unused)
{
	int outer = fake_group("quredis-dead", "populated 0\n"), inner = fake_group("quredis-dead/quredis-dead", "populated 0\n");
	size_t before = descriptors_open();

	(void)unused;
	kill_group("quredis-dead", 0);
	assert_true(was_killed(outer) && !was_killed(inner));
	assert_int_equal(descriptors_open(), before);
	close(outer);
	close(inner);
}

/* A search without descriptors proves nothing: something may be left, though none is known to have been killed. */
static void a_search_without_descriptors_proves_nothing(void **unused)
{
	struct cgroup_dead g = { .name = "quredis-dead" };
	int group = fake_group("quredis-dead", "populated 0\n"), next = dup(0);
	struct rlimit before, low;

	(void)unused;
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	low = before;
	for (rlim_t spare = 0; spare < 3; spare++) {	/* none; the table of mounts, then the root; its list */
		low.rlim_cur = (rlim_t)next + spare;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
		cgroup_kill(&g, 1, 0);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		assert_int_equal(g.left, 1);
		assert_int_equal(g.killed, 0);
	}
	cgroup_kill(&g, 1, 0);
	assert_int_equal(g.left, 0);
	close(group);
}

/* ---- a real one ---- */

static pid_t start_in(int group)
{
	char *env[] = { NULL };		/* env -i */
	pid_t pid;
	int p[2];
	char c;

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		if (cgroup_enter(group) == -1)
			_exit(1);
		setsid();
		if (fork() != 0)
			_exit(0);
		execve("/bin/sleep", (char *[]){ (char *)"sleep", (char *)"600", NULL }, env);
		_exit(1);
	}
	close(p[1]);
	assert_int_equal(read(p[0], &c, 1), 0);
	close(p[0]);
	return pid;
}

static void by_cgroup(void **unused)
{
	char name[CGROUP_NAME_SIZE];
	pid_t leader, adopted;
	struct cgroup_dead dead;
	int group;

	(void)unused;
	name_group(UINT64_C(0xfeed), name);
	group = cgroup_make(name);
	assert_int_not_equal(group, -1);
	leader = start_in(group);
	assert_int_equal(waitpid(leader, NULL, 0), leader);
	dead = kill_group(name, 20000);		/* our descriptor holds its lock */
	assert_true(dead.held);
	assert_int_equal(dead.left, 1);
	close(group);
	dead = kill_group(name, 20000);
	assert_false(dead.held);
	assert_int_equal(dead.left, 0);
	assert_int_equal(dead.killed, 1);
	adopted = waitpid(-1, NULL, 0);		/* we are a subreaper: it became ours, and it is dead */
	assert_true(adopted > 0 && adopted != leader);
	dead = kill_group(name, 20000);		/* removed */
	assert_int_equal(dead.left + dead.killed, 0);
}

/* Those of dead supervisors go; one that is held, or in use, stays. */
static void stale_cgroups_are_removed(void **unused)
{
	char held_name[CGROUP_NAME_SIZE], stale_name[CGROUP_NAME_SIZE], name[CGROUP_NAME_SIZE];
	int held, stale, group;
	pid_t pid;

	(void)unused;
	name_group(UINT64_C(0xf00d), held_name);
	name_group(UINT64_C(0xdead), stale_name);
	name_group(UINT64_C(0xcafe), name);
	held = cgroup_make(held_name);
	assert_int_not_equal(held, -1);
	stale = cgroup_make(stale_name);
	pid = fork();
	if (pid == 0)
		_exit(cgroup_enter(held) == 0 && cgroup_enter(stale) == 0 ? 0 : 1);
	assert_int_equal(waitpid(pid, &(int){0}, 0), pid);
	close(stale);			/* its supervisor is gone */
	group = cgroup_make(name);
	assert_int_not_equal(group, -1);
	pid = fork();
	if (pid == 0)
		_exit(cgroup_enter(held) == 0 ? 0 : 1);
	{
		int status;

		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	assert_int_equal(kill_group(stale_name, 1000).left, 0);
	stale = cgroup_make(stale_name);	/* the name is free again */
	assert_int_not_equal(stale, -1);
	cgroup_remove(stale, stale_name);
	cgroup_remove(held, held_name);
	cgroup_remove(group, name);
}

static int leaves_nothing(void **unused)
{
	(void)unused;
	return process_kill_children_wait(NULL, NULL, 10000);
}

/* Whether a real one can be made, and its processes be held: not in most containers, nor under valgrind. */
static bool is_real(void)
{
	char name[CGROUP_NAME_SIZE];
	int group, pid = (int)syscall(SYS_pidfd_open, getpid(), 0u);

	if (pid == -1)
		return false;
	close(pid);
	name_group(UINT64_C(0xbeef), name);
	group = cgroup_make(name);
	if (group == -1)
		return false;
	cgroup_remove(group, name);
	return true;
}

#define REAL 4		/* index of the first test that needs a real one */

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_is_of_the_token),
		cmocka_unit_test_setup_teardown(only_the_dead_are_killed, fake_hierarchy, remove_hierarchy),
		cmocka_unit_test_setup_teardown(one_name_below_itself, fake_hierarchy, remove_hierarchy),
		cmocka_unit_test_setup_teardown(a_search_without_descriptors_proves_nothing, fake_hierarchy, remove_hierarchy),
		cmocka_unit_test_teardown(by_cgroup, leaves_nothing),		/* REAL from here on */
		cmocka_unit_test_teardown(stale_cgroups_are_removed, leaves_nothing),
	};

	if (process_become_subreaper() == -1)
		return 1;
	/* skip() is no way out: prove(1) takes what cmocka 1.1.5 prints of it for a failure. */
	return _cmocka_run_group_tests("tests", tests, is_real() ? sizeof(tests) / sizeof(tests[0]) : REAL, NULL, NULL);
}
