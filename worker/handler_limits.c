/*
 * What a handler may use: resource limits, nice, the OOM killer's preference. Called between fork
 * and exec, while still privileged. What is not configured is inherited; core dumps always are.
 */
#include <sys/resource.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/nitems.h"
#include "worker/handler_spawn.h"

/* Decimal digits without stdio, which is not for a vfork child. Returns where they begin. */
static char *digits(int value, char *end)
{
	unsigned rest = value < 0 ? 0u - (unsigned)value : (unsigned)value;

	do
		*--end = (char)('0' + rest % 10);
	while ((rest /= 10) > 0);
	if (value < 0)
		*--end = '-';
	return end;
}

static int set_oom_score_adj(int value)
{
	char text[16], *end = text + sizeof(text), *p = digits(value, end);
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	ssize_t n;
	int error;

	if (fd == -1)
		return -1;
	n = write(fd, p, (size_t)(end - p));
	error = errno;
	close(fd);
	errno = error;
	return n == end - p ? 0 : -1;
}

static int set_limit(int resource, int64_t soft, int64_t hard)
{
	struct rlimit limit = { .rlim_cur = (rlim_t)soft, .rlim_max = (rlim_t)hard };

	return soft == -1 ? 0 : setrlimit((__rlimit_resource_t)resource, &limit);
}

/* The soft limit says XCPU, the hard one kills: apart by the grace a handler has elsewhere too. */
static int set_cpu_limit(int64_t cpu_ms, int64_t grace_ms)
{
	int64_t soft = cpu_ms == -1 ? -1 : (cpu_ms + 999) / 1000;

	return set_limit(RLIMIT_CPU, soft, soft + (grace_ms + 999) / 1000);
}

/* On top of the supervisor's own, as nice(1) does. */
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
	if (l->oom_score_adj_set && set_oom_score_adj(l->oom_score_adj) == -1)
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
