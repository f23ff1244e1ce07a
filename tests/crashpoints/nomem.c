/*
 * Preloaded into quredisd: lets the nth allocation of chosen processes of its tree fail, or all from the nth on for a
 * while. They are named by their descent as in tracer.c; only fork() counts, what vfork makes does not allocate.
 *
 *	NOMEM_TARGETS=0.2:n,0.3:m	NOMEM_MS=200 (0: one)	NOMEM_REPORT=file	NOMEM_GATE=file
 *
 * Of allocations with the same callers only the first SAME count, and none before the gate is there. The report gets
 * "fired ROLE N malloc -" when it happens, and "calls ROLE N TIMES" if the process exits by itself. A crash that
 * follows is told by "crash ROLE N LIBRARY -": whose code it was in.
 */
#include <sys/types.h>

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* glibc's own names for them */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);

#define SAME 2
#define CALLERS 12
#define SITES 8192	/* a power of two; far more than there are */

static uint64_t sites[SITES];		/* callers that were seen, hashed; 0: free */
static unsigned seen[SITES];	/* how often */
static bool looking;			/* at the callers: what that allocates is not the program's */

static char role[32] = "0", targets[1024], path[4096], gate[4096];
static int children;
static long when, calls, injected;
static int64_t for_ms, until_ms;
static pid_t (*real_fork)(void);
static bool is_target;

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void say(const char *what, const char *rest)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "%s %s %ld %s\n", what, role, calls, rest);
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

	if (fd == -1)
		return;
	if (write(fd, line, (size_t)n) == -1)
		_exit(99);
	close(fd);
}

static void take(const char *name, char *out, size_t size)
{
	const char *value = getenv(name);

	snprintf(out, size, "%s", value == NULL ? "" : value);
}

/* From here on this process has another name. */
static void find_target(void)
{
	size_t len = strlen(role);

	is_target = false;
	calls = injected = 0;
	memset(sites, 0, sizeof(sites));
	memset(seen, 0, sizeof(seen));
	for (const char *p = targets; !is_target && p != NULL && *p != '\0'; p = strchr(p, ',')) {
		p += *p == ',' ? 1 : 0;
		is_target = strncmp(p, role, len) == 0 && p[len] == ':';
		when = is_target ? strtol(p + len + 1, NULL, 10) : 0;
	}
}

/* The innermost caller that is no part of the C library. */
static void crashed(int sig)
{
	char rest[96];
	void *callers[CALLERS];
	int n = backtrace(callers, CALLERS);
	Dl_info info;

	looking = true;
	snprintf(rest, sizeof(rest), "nowhere -");
	for (int i = 1; i < n; i++) {
		const char *slash;

		if (dladdr(callers[i], &info) == 0 || info.dli_fname == NULL)
			continue;
		slash = strrchr(info.dli_fname, '/');
		snprintf(rest, sizeof(rest), "%s -", slash == NULL ? info.dli_fname : slash + 1);
		if (strncmp(rest, "libc.so", 7) != 0 && strncmp(rest, "nomem.so", 8) != 0)
			break;
	}
	say("crash", rest);
	signal(sig, SIG_DFL);
}

__attribute__((constructor)) static void begin(void)
{
	char number[24];
	void *callers[CALLERS];

	backtrace(callers, CALLERS);	/* the first time it loads what it needs */
	real_fork = (pid_t (*)(void))dlsym(RTLD_NEXT, "fork");
	take("NOMEM_TARGETS", targets, sizeof(targets));
	take("NOMEM_REPORT", path, sizeof(path));
	take("NOMEM_GATE", gate, sizeof(gate));
	take("NOMEM_MS", number, sizeof(number));
	for_ms = strtol(number, NULL, 10);
	find_target();
	signal(SIGSEGV, crashed);
	signal(SIGABRT, crashed);
}

__attribute__((destructor)) static void end(void)
{
	char times[24];

	snprintf(times, sizeof(times), "%ld", injected);
	if (is_target)
		say("calls", times);
}

pid_t fork(void)
{
	pid_t pid = real_fork();
	size_t len = strlen(role);

	if (pid != -1)
		children++;
	if (pid == 0) {
		snprintf(role + len, sizeof(role) - len, ".%d", children);
		children = 0;
		find_target();
	}
	return pid;
}

static bool gate_is_shut(void)
{
	int saved = errno;
	bool shut = gate[0] != '\0' && access(gate, F_OK) == -1;

	if (!shut)
		gate[0] = '\0';
	errno = saved;
	return shut;
}

static bool is_new(void)
{
	uint64_t hash = 14695981039346656037u, i;
	void *callers[CALLERS];
	int n = backtrace(callers, CALLERS);

	for (int c = 0; c < n; c++)
		hash = (hash ^ (uint64_t)(uintptr_t)callers[c]) * 1099511628211u;
	for (i = hash % SITES; sites[i] != 0 && sites[i] != hash; i = (i + 1) % SITES)
		;
	sites[i] = hash;
	seen[i]++;
	return seen[i] <= SAME;
}

/* It is the one, or comes soon enough after it. */
static bool is_due(void)
{
	if (until_ms != 0) {
		if (now_ms() < until_ms)
			return true;
		until_ms = 0;
	}
	if (!is_new() || ++calls != when)
		return false;
	until_ms = for_ms == 0 ? 0 : now_ms() + for_ms;
	say("fired", "malloc -");
	return true;
}

static bool refused(void)
{
	bool due;

	if (!is_target || looking || gate_is_shut())
		return false;
	looking = true;
	due = is_due();
	looking = false;
	if (!due)
		return false;
	injected++;
	errno = ENOMEM;
	return true;
}

void *malloc(size_t size)
{
	return refused() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return refused() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *p, size_t size)
{
	return refused() ? NULL : __libc_realloc(p, size);
}

/* libbsd's and glibc's */
void *reallocarray(void *p, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(p, bytes);
}
