/* System calls of handlers' owner that do not do what they should. */
#include <sys/wait.h>

#include <errno.h>
#include <signal.h>

#include "tests/unit/handler/handler_faults.h"

#include "common/base/process.h"

struct handler_faults handler_faults;

/* ---- SIGKILL that does not work ---- */

int __wrap_kill(pid_t pid, int sig);

int __wrap_kill(pid_t pid, int sig)
{
	if (sig == SIGKILL && pid < 0)
		handler_faults.group_killed = -pid;
	return handler_faults.deaf && sig == SIGKILL ? 0 : __real_kill(pid, sig);
}

/* ---- waits that are interrupted ---- */

int __real_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
pid_t __real_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);

static bool interrupted(int *times)
{
	if (*times == 0)
		return false;
	--*times;
	errno = EINTR;
	return true;
}

int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	return interrupted(&handler_faults.looks_interrupted) ? -1 : __real_waitid(type, id, info, options);
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
	return interrupted(&handler_faults.reaps_interrupted) ? -1 : __real_waitpid(pid, status, options);
}

/* ---- a kernel before 5.11 ---- */

int __real_process_close_on_exec_from(int from);
int __wrap_process_close_on_exec_from(int from);

int __wrap_process_close_on_exec_from(int from)
{
	return handler_faults.old_kernel ? -1 : __real_process_close_on_exec_from(from);
}
