/*
 * Finds processes in /proc, kills them, and waits until they have ended. The caller decides which processes may be
 * killed, and reaps the children whose status it needs.
 */
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/close_range.h>

#include <bsd/stdlib.h>
#include <bsd/unistd.h>

#include "common/base/alloc.h"
#include "common/base/buffer.h"
#include "common/base/clock.h"
#include "common/base/process.h"

#define LOOK_MS 10		/* longest pause between two checks of children that do not end at once */

struct pids {
	pid_t *pid;
	size_t n, cap;
};

static void pids_add(struct pids *list, pid_t pid)
{
	if (list->n == list->cap) {
		list->cap = list->cap == 0 ? 16 : list->cap * 2;
		list->pid = alloc_resize(list->pid, list->cap, sizeof(*list->pid));
	}
	list->pid[list->n++] = pid;
}

/* Returns the next entry of a directory of /proc that is a number; 0: no more. */
static pid_t next_number(DIR *dir)
{
	struct dirent *e;

	while ((e = readdir(dir)) != NULL)
		if (isdigit((unsigned char)e->d_name[0]))
			return (pid_t)strtol(e->d_name, NULL, 10);
	return 0;
}

int process_read_file(const char *path, struct buffer *b, size_t max)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char chunk[4096];
	ssize_t n = 0;
	int error;

	if (fd == -1)
		return -1;
	while (b->len < max && ((n = read(fd, chunk, sizeof(chunk))) > 0 || (n == -1 && errno == EINTR)))
		if (n > 0)
			buffer_append(b, chunk, (size_t)n);
	error = n == -1 ? errno : 0;
	close(fd);
	buffer_append(b, "", 1);
	errno = error;
	return error == 0 ? 0 : -1;
}

bool process_error_is_shortage(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM;
}

/* /proc lists the children of each thread that forked them. -1: this kernel has no such list. */
static int list_by_task(struct pids *list)
{
	struct buffer text = {0};
	DIR *tasks = opendir("/proc/self/task");
	int found = -1;
	char path[64];
	pid_t task;

	if (tasks == NULL)
		return -1;
	while ((task = next_number(tasks)) != 0) {
		char *p, *end;
		long pid;

		snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)task);
		buffer_clear(&text);
		if (process_read_file(path, &text, SIZE_MAX) == -1)
			continue;
		found = 0;
		for (p = text.data; (pid = strtol(p, &end, 10)) > 0; p = end)
			pids_add(list, (pid_t)pid);
	}
	closedir(tasks);
	buffer_free(&text);
	return found;
}

static pid_t parent_of(pid_t pid, struct buffer *text)
{
	char path[64];
	const char *p;
	int parent;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	buffer_clear(text);
	if (process_read_file(path, text, SIZE_MAX) == -1 || (p = strrchr(text->data, ')')) == NULL)
		return -1;
	return sscanf(p, ") %*c %d", &parent) == 1 ? parent : -1;
}

static void list_by_parent(struct pids *list)
{
	struct buffer text = {0};
	DIR *dir = opendir("/proc");
	pid_t pid, self = getpid();

	if (dir == NULL)
		return;
	while ((pid = next_number(dir)) != 0)
		if (parent_of(pid, &text) == self)
			pids_add(list, pid);
	closedir(dir);
	buffer_free(&text);
}

/* Asks the kernel without /proc, so that the usual case costs one call. */
static bool have_children(void)
{
	siginfo_t info;

	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

/* Lists the direct children, zombies included, except those that `spare` accepts. */
static void list_children(struct pids *list, bool (*spare)(pid_t pid, void *arg), void *arg)
{
	size_t kept = 0;

	list->n = 0;
	if (!have_children())
		return;
	if (list_by_task(list) == -1)
		list_by_parent(list);
	for (size_t i = 0; i < list->n; i++)
		if (spare == NULL || !spare(list->pid[i], arg))
			list->pid[kept++] = list->pid[i];
	list->n = kept;
}

void process_hide_memory(bool hide)
{
	prctl(PR_SET_DUMPABLE, hide ? 0 : 1, 0, 0, 0);
}

int process_become_subreaper(void)
{
	return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

size_t process_kill_children(bool (*spare)(pid_t pid, void *arg), void *arg)
{
	struct pids list = {0};
	size_t killed = 0;

	list_children(&list, spare, arg);
	for (size_t i = 0; i < list.n; i++)
		killed += kill(list.pid[i], SIGKILL) == 0 ? 1 : 0;
	free(list.pid);
	return killed;
}

int process_kill_children_wait(bool (*spare)(pid_t pid, void *arg), void *arg, int64_t timeout_ms)
{
	int64_t deadline_ms = clock_monotonic_ms() + timeout_ms;
	struct pids list = {0};
	int pause_ms = 1;

	for (;;) {
		list_children(&list, spare, arg);
		for (size_t i = 0; i < list.n; i++)
			kill(list.pid[i], SIGKILL);
		for (size_t i = 0; i < list.n; i++)
			waitpid(list.pid[i], NULL, WNOHANG);
		if (list.n == 0 || clock_monotonic_ms() >= deadline_ms)
			break;
		poll(NULL, 0, pause_ms);
		pause_ms = pause_ms * 2 > LOOK_MS ? LOOK_MS : pause_ms * 2;
	}
	free(list.pid);
	return list.n == 0 ? 0 : -1;
}

/*
 * Raw system calls: glibc's sigaction refuses the two signals that its posix_spawn (used by make, for one) leaves
 * ignored. A struct of zeros means SIG_DFL, no flags and an empty mask on every architecture.
 */
#define KERNEL_SIGACTION_WORDS 8
#define KERNEL_SIGSET_SIZE ((size_t)(NSIG / 8))

static const unsigned long default_action[KERNEL_SIGACTION_WORDS];

void process_reset_signals(void)
{
	process_default_signals(process_changed_signals());
}

/*
 * Flags and mask do not count: exec resets them, and until then nothing runs. Of the two signals that only the raw call
 * reads, they do; that costs one more reset.
 */
static bool has_default_action(int sig)
{
	unsigned long raw[KERNEL_SIGACTION_WORDS] = {0};
	struct sigaction action;

	if (sigaction(sig, NULL, &action) == 0)
		return action.sa_handler == SIG_DFL;
	return syscall(SYS_rt_sigaction, sig, NULL, raw, KERNEL_SIGSET_SIZE) == -1 ||
	    memcmp(raw, default_action, sizeof(raw)) == 0;
}

uint64_t process_changed_signals(void)
{
	uint64_t signals = 0;

	for (int sig = 1; sig < NSIG; sig++) {
		if (!has_default_action(sig))
			signals |= UINT64_C(1) << (sig - 1);
	}
	return signals;
}

void process_default_signals(uint64_t signals)
{
	sigset_t none;

	for (; signals != 0; signals &= signals - 1)
		syscall(SYS_rt_sigaction, __builtin_ctzll(signals) + 1, default_action, NULL, KERNEL_SIGSET_SIZE);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

int process_close_on_exec_from(int from)
{
	return syscall(SYS_close_range, (unsigned)from, ~0u, CLOSE_RANGE_CLOEXEC) == -1 ? -1 : 0;
}

void process_close_from(int from)
{
	if (syscall(SYS_close_range, (unsigned)from, ~0u, 0u) == -1)
		closefrom(from);
}

int process_signal_number(const char *name, size_t len)
{
	for (int sig = 1; sig < NSIG; sig++) {
		const char *known = process_signal_name(sig);

		if (strlen(known) == len && memcmp(known, name, len) == 0)
			return sig;
	}
	return 0;
}

const char *process_signal_name(int sig)
{
#define NAMED(name) [name] = #name
#define NUMBERED(n) [n] = "SIG" #n
	static const char *const names[NSIG] = {
		NAMED(SIGHUP), NAMED(SIGINT), NAMED(SIGQUIT), NAMED(SIGILL), NAMED(SIGTRAP), NAMED(SIGABRT),
		NAMED(SIGBUS), NAMED(SIGFPE), NAMED(SIGKILL), NAMED(SIGUSR1), NAMED(SIGSEGV), NAMED(SIGUSR2),
		NAMED(SIGPIPE), NAMED(SIGALRM), NAMED(SIGTERM), NAMED(SIGSTKFLT), NAMED(SIGCHLD), NAMED(SIGCONT),
		NAMED(SIGSTOP), NAMED(SIGTSTP), NAMED(SIGTTIN), NAMED(SIGTTOU), NAMED(SIGURG), NAMED(SIGXCPU),
		NAMED(SIGXFSZ), NAMED(SIGVTALRM), NAMED(SIGPROF), NAMED(SIGWINCH), NAMED(SIGIO), NAMED(SIGPWR),
		NAMED(SIGSYS),
		NUMBERED(32), NUMBERED(33), NUMBERED(34), NUMBERED(35), NUMBERED(36), NUMBERED(37), NUMBERED(38),
		NUMBERED(39), NUMBERED(40), NUMBERED(41), NUMBERED(42), NUMBERED(43), NUMBERED(44), NUMBERED(45),
		NUMBERED(46), NUMBERED(47), NUMBERED(48), NUMBERED(49), NUMBERED(50), NUMBERED(51), NUMBERED(52),
		NUMBERED(53), NUMBERED(54), NUMBERED(55), NUMBERED(56), NUMBERED(57), NUMBERED(58), NUMBERED(59),
		NUMBERED(60), NUMBERED(61), NUMBERED(62), NUMBERED(63), NUMBERED(64),
	};

	return sig > 0 && sig < NSIG && names[sig] != NULL ? names[sig] : "SIG?";
}

int64_t process_resident_bytes(pid_t pid)
{
	char path[64], text[128];
	long long pages = -1;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd == -1)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return sscanf(text, "%*d %lld", &pages) == 1 ? pages * sysconf(_SC_PAGESIZE) : -1;
}

int process_boot_id(char out[PROCESS_BOOT_ID_SIZE])
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	bool ok = f != NULL && fgets(out, PROCESS_BOOT_ID_SIZE, f) != NULL;

	if (f != NULL)
		fclose(f);
	if (ok)
		out[strcspn(out, "\n")] = '\0';
	return ok ? 0 : -1;
}
