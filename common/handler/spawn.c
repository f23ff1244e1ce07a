/*
 * Makes the process of a handler: the pipes, before there is a process, so that a handler without them is never
 * started; and the child between fork and exec. Limits are in limits.c; process.c follows the child until nothing of it
 * is left.
 *
 * The child is made by vfork, because fork costs by the size of the parent. So it runs in the memory and on the stack
 * of its parent: it calls nothing that allocates or takes a lock, and reports an error only through the failure pipe.
 * Under sanitizers and valgrind vfork is a fork.
 */
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "common/base/base.h"
#include "common/handler/script.h"
#include "common/handler/spawn.h"

const char *const handler_stage_names[HANDLER_STAGES] = {
	[HANDLER_STAGE_NONE] = "none",
	[HANDLER_STAGE_SETSID] = "setsid",
	[HANDLER_STAGE_DUP] = "dup",
	[HANDLER_STAGE_OOM_SCORE_ADJ] = "oom_score_adj",
	[HANDLER_STAGE_LIMIT_MEMORY] = "limits.memory",
	[HANDLER_STAGE_LIMIT_OPEN_FILES] = "limits.open_files",
	[HANDLER_STAGE_LIMIT_PROCESSES] = "limits.processes",
	[HANDLER_STAGE_LIMIT_CPU] = "limits.cpu",
	[HANDLER_STAGE_LIMIT_FILE_SIZE] = "limits.file_size",
	[HANDLER_STAGE_NICE] = "nice",
	[HANDLER_STAGE_SETGROUPS] = "setgroups",
	[HANDLER_STAGE_SETGID] = "setgid",
	[HANDLER_STAGE_SETUID] = "setuid",
	[HANDLER_STAGE_CHDIR] = "chdir",
	[HANDLER_STAGE_NO_NEW_PRIVS] = "no_new_privs",
	[HANDLER_STAGE_PDEATHSIG] = "pdeathsig",
	[HANDLER_STAGE_SCRIPT] = "script",
	[HANDLER_STAGE_EXECVE] = "execve",
	[HANDLER_STAGE_INTERPRETER] = "interpreter",
};

/* ---- pipes, made by the parent ---- */

void handler_fd_close(int *fd)
{
	if (*fd != -1)
		close(*fd);
	*fd = -1;
}

void handler_pipe_close(int pair[2])
{
	int error = errno;

	handler_fd_close(&pair[0]);
	handler_fd_close(&pair[1]);
	errno = error;
}

int handler_fd_move(int *fd, int least)
{
	int low = *fd;

	if (low >= least)
		return 0;
	*fd = fcntl(low, F_DUPFD_CLOEXEC, least);
	if (*fd == -1 && errno == EINVAL)
		errno = EMFILE;		/* the errno of a limit below `least` */
	close(low);
	return *fd == -1 ? -1 : 0;
}

/* The handler's end blocks, as programs expect of their standard input and output. */
int handler_pipe_open(int pair[2], int ours)
{
	pair[0] = pair[1] = -1;
	if (pipe2(pair, O_CLOEXEC) == -1)
		return -1;
	if (handler_fd_move(&pair[0], STDERR_FILENO + 1) == 0 && handler_fd_move(&pair[1], STDERR_FILENO + 1) == 0 &&
	    (ours == -1 || fcntl(pair[ours], F_SETFL, O_NONBLOCK) == 0))
		return 0;
	handler_pipe_close(pair);
	return -1;
}

int handler_reply_pipe_open(int pair[2])
{
	if (handler_pipe_open(pair, 0) == -1)
		return -1;
	if (handler_fd_move(&pair[1], HANDLER_FD_SAFE) == 0)
		return 0;
	handler_pipe_close(pair);
	return -1;
}

/* ---- the user, switched to by the child ---- */

/*
 * Raw system calls: the C library's functions would change every thread of the parent, in whose memory this runs, and
 * take locks. The groups were resolved when the configuration was loaded.
 */
#ifdef SYS_setgroups32		/* 32-bit machines have 16-bit calls under the plain names */
#define CALL_SETGROUPS SYS_setgroups32
#define CALL_SETRESGID SYS_setresgid32
#define CALL_SETRESUID SYS_setresuid32
#else
#define CALL_SETGROUPS SYS_setgroups
#define CALL_SETRESGID SYS_setresgid
#define CALL_SETRESUID SYS_setresuid
#endif

static int verify_user(const struct conf_run_as *user)
{
	uid_t r, e, s;
	gid_t rg, eg, sg;

	if (getresuid(&r, &e, &s) == -1 || getresgid(&rg, &eg, &sg) == -1)
		return -1;
	errno = EPERM;
	if (r != user->uid || e != user->uid || s != user->uid)
		return -1;
	return rg == user->gid && eg == user->gid && sg == user->gid && getgroups(0, NULL) == user->ngroups ? 0 : -1;
}

static int become(const struct conf_run_as *user, enum handler_stage *stage)
{
	*stage = HANDLER_STAGE_SETGROUPS;
	if (syscall(CALL_SETGROUPS, (size_t)user->ngroups, user->groups) == -1)
		return -1;
	*stage = HANDLER_STAGE_SETGID;
	if (syscall(CALL_SETRESGID, user->gid, user->gid, user->gid) == -1)
		return -1;
	*stage = HANDLER_STAGE_SETUID;
	if (syscall(CALL_SETRESUID, user->uid, user->uid, user->uid) == -1)
		return -1;
	return verify_user(user);
}

/* ---- the child ---- */

_Noreturn static void fail(int fd, enum handler_stage stage)
{
	struct handler_failure f = { .pid = getpid(), .error = errno, .stage = (int32_t)stage };
	ssize_t n = write(fd, &f, sizeof(f));	/* shorter than PIPE_BUF: whole or not at all */

	(void)n;
	_exit(HANDLER_SPAWN_FAILED);
}

/* For kernels where close_range(2) can close descriptors but not mark them: moves the ones to keep below
 * HANDLER_FD_SAFE, and closes the rest. */
static int close_others(const struct handler_plan *plan, int *failure_fd)
{
	int reply_fd = plan->reply_end == -1 ? -1 : plan->conf->reply_fd;
	int low = reply_fd == STDERR_FILENO + 1 ? STDERR_FILENO + 2 : STDERR_FILENO + 1;

	if (dup3(plan->failure_fd, low, O_CLOEXEC) == -1)
		return -1;
	*failure_fd = low;
	if (reply_fd != -1 && dup2(plan->reply_end, reply_fd) == -1)
		return -1;
	for (int fd = STDERR_FILENO + 1; fd < HANDLER_FD_SAFE; fd++)
		if (fd != low && fd != reply_fd)
			close(fd);
	process_close_from(HANDLER_FD_SAFE);
	return 0;
}

/* Leaves open 0 to 2 and reply_fd for the handler, and failure_fd until exec; nothing else. */
static int take_descriptors(const struct handler_plan *plan, int *failure_fd)
{
	for (int i = 0; i < 3; i++)
		if (dup2(plan->stdio[i], i) == -1)
			return -1;
	if (process_close_on_exec_from(STDERR_FILENO + 1) == -1)
		return close_others(plan, failure_fd);
	return plan->reply_end == -1 ? 0 : dup2(plan->reply_end, plan->conf->reply_fd);
}

/* A pipe belongs to the user of the worker. Without this the handler's could not open its own /dev/stdin or
 * /dev/stderr: Permission denied. Other users do not reach it, since /proc/PID/fd is closed to them. */
static void let_user_open_pipes(void)
{
	struct stat st;

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode))
			fchmod(fd, 0666);
}

/* Killed with its parent. Set after the user switch, which clears it. */
static int follow_parent(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == -1)
		return -1;
	if (getppid() != parent)
		_exit(HANDLER_SPAWN_FAILED);		/* the parent died before, so no process waits for a report */
	return 0;
}

/*
 * The program itself could be executed, so the errno of execve is about the interpreter in its first line, or about the
 * loader that a binary names.
 */
static enum handler_stage stage_of_execve_error(const char *program)
{
	int error = errno;
	bool executable = (error == ENOENT || error == EACCES || error == ENOTDIR) && access(program, X_OK) == 0;

	errno = error;
	return executable ? HANDLER_STAGE_INTERPRETER : HANDLER_STAGE_EXECVE;
}

_Noreturn static void child(const struct handler_plan *plan)
{
	const struct conf_run_as *user = &plan->conf->run_as;
	enum handler_stage stage = HANDLER_STAGE_NONE;
	int failure_fd = plan->failure_fd, program_fd = -1;

	if (setsid() == -1)
		fail(failure_fd, HANDLER_STAGE_SETSID);
	if (take_descriptors(plan, &failure_fd) == -1)
		fail(failure_fd, HANDLER_STAGE_DUP);
	if (handler_limit(plan->conf, &stage) == -1)
		fail(failure_fd, stage);
	if (user->switch_user) {
		let_user_open_pipes();
		program_fd = handler_script_open(plan->argv[0]);
	}
	if (user->switch_user && become(user, &stage) == -1)
		fail(failure_fd, stage);
	umask(user->umask);
	if (chdir(user->directory == NULL ? "/" : user->directory) == -1)
		fail(failure_fd, HANDLER_STAGE_CHDIR);
	if (user->no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1)
		fail(failure_fd, HANDLER_STAGE_NO_NEW_PRIVS);
	if (follow_parent(plan->parent) == -1)
		fail(failure_fd, HANDLER_STAGE_PDEATHSIG);
	process_default_signals(plan->signals);
	if (handler_script_lacks_right(program_fd, plan->argv[0]) ||
	    (plan->script != NULL && handler_script_is_unusable(plan->script)))
		fail(failure_fd, HANDLER_STAGE_SCRIPT);
	execve(plan->argv[0], plan->argv, plan->envp);
	fail(failure_fd, stage_of_execve_error(plan->argv[0]));
}

/* No signal handler of the parent may run in the child, on the parent's memory. */
pid_t handler_spawn(const struct handler_plan *plan)
{
	sigset_t all, old;
	int error;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	pid = vfork();
	if (pid == 0)
		child(plan);
	error = errno;
	sigprocmask(SIG_SETMASK, &old, NULL);
	errno = error;
	return pid;
}
