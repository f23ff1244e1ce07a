/*
 * Limits what a handler may use: resource limits, nice, and the preference of the OOM killer. The child calls this
 * between fork and exec, while it is still privileged. Limits that are not configured are inherited, and so is the one
 * for core dumps.
 */
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "common/base/base.h"
#include "common/handler/spawn.h"

#define LATE_TRIES 40

#ifdef SYS_setfsuid32		/* 32-bit machines have 16-bit calls under the plain names */
#define CALL_SETFSUID SYS_setfsuid32
#else
#define CALL_SETFSUID SYS_setfsuid
#endif

static int write_oom_score_adj(const char *path, int value)
{
	char text[1 + PUT_NUMBER_MAX], *end = put_signed(text, value);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n;
	int error;

	if (fd == -1)
		return -1;
	n = write(fd, text, (size_t)(end - text));
	error = errno;
	close(fd);
	errno = error;
	return n == end - text ? 0 : -1;
}

/*
 * True: the limit can be set only after exec. A worker hides its memory from its own user (process_hide_memory()), and
 * so does the child while it runs in the worker's memory: its /proc files belong to root until exec, and after that
 * only the parent can write them.
 */
static bool only_after_exec(const struct conf_queue *conf)
{
	return !conf->run_as.switch_user && geteuid() != 0 && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 1;
}

/*
 * A worker of supervisor.user cannot write the files of a handler of another user after exec. It may set user ids: its
 * child takes that of root for files alone, as a raw system call, for itself and not for the worker's threads. become()
 * ends it.
 */
static int write_own_oom_score_adj(const struct conf_queue *conf)
{
	if (only_after_exec(conf))
		return 0;
	if (conf->run_as.switch_user && geteuid() != 0)
		syscall(CALL_SETFSUID, 0);
	return write_oom_score_adj("/proc/self/oom_score_adj", conf->limits.oom_score_adj);
}

/* vfork may return before exec has finished: a moment later the files belong to the user. */
int handler_limit_late(const struct conf_queue *conf, pid_t pid)
{
	struct timespec moment = { .tv_nsec = 250000 };
	char path[64];
	int result;

	if (!conf->limits.oom_score_adj_set || !only_after_exec(conf))
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	result = write_oom_score_adj(path, conf->limits.oom_score_adj);
	for (int i = 0; i < LATE_TRIES && result == -1 && errno == EACCES; i++) {
		nanosleep(&moment, NULL);
		result = write_oom_score_adj(path, conf->limits.oom_score_adj);
	}
	return result;
}

#ifdef __GLIBC__
typedef __rlimit_resource_t limited_resource;	/* of setrlimit(); int in other C libraries */
#else
typedef int limited_resource;
#endif

static int set_limit(int resource, int64_t soft, int64_t hard)
{
	struct rlimit limit = { .rlim_cur = (rlim_t)soft, .rlim_max = (rlim_t)hard };

	return soft == -1 ? 0 : setrlimit((limited_resource)resource, &limit);
}

/* The soft limit sends XCPU, the hard one kills. Their distance is kill_grace, as for other stops. */
static int set_cpu_limit(int64_t cpu_ms, int64_t grace_ms)
{
	int64_t soft = cpu_ms == -1 ? -1 : (cpu_ms + 999) / 1000;

	return set_limit(RLIMIT_CPU, soft, soft + (grace_ms + 999) / 1000);
}

/* Added to the nice value of the supervisor, as nice(1) does. */
static int add_nice(int nice)
{
	if (nice == 0)
		return 0;
	errno = 0;
	return setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + nice);
}

int handler_limit(const struct conf_queue *conf, enum handler_stage *stage)
{
	const struct conf_limits *l = &conf->limits;
	const struct {
		int resource;
		int64_t value;
		enum handler_stage stage;
	} plain[] = {
		{ RLIMIT_DATA, l->memory, HANDLER_STAGE_LIMIT_MEMORY },
		{ RLIMIT_NOFILE, l->open_files, HANDLER_STAGE_LIMIT_OPEN_FILES },
		{ RLIMIT_NPROC, l->processes, HANDLER_STAGE_LIMIT_PROCESSES },
		{ RLIMIT_FSIZE, l->file_size, HANDLER_STAGE_LIMIT_FILE_SIZE },
	};

	*stage = HANDLER_STAGE_OOM_SCORE_ADJ;
	if (l->oom_score_adj_set && write_own_oom_score_adj(conf) == -1)
		return -1;
	for (size_t i = 0; i < nitems(plain); i++) {
		*stage = plain[i].stage;
		if (set_limit(plain[i].resource, plain[i].value, plain[i].value) == -1)
			return -1;
	}
	*stage = HANDLER_STAGE_LIMIT_CPU;
	if (set_cpu_limit(l->cpu_ms, conf->kill_grace_ms) == -1)
		return -1;
	*stage = HANDLER_STAGE_NICE;
	return add_nice(conf->run_as.nice);
}
