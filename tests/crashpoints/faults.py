"""What is done to a process: kills, calls that fail, allocations that fail. And which call can fail how."""
import dataclasses
import errno

WHILE_MS = 200      # "for a while"
SPIN = 400          # a call that fails this often in that time is tried without a pause

_READS = "read@socket,recvfrom,recvmsg,readv@socket"
_SENDS = "write@socket,sendto,sendmsg,writev@socket"
_FORKS = "clone,clone3,fork,vfork"
_NEW = "socket,socketpair,pipe2,accept4,signalfd4,pidfd_open,memfd_create"

# errno -> calls that can have it, "name" or "name@what it is made on" (tracer.c)
CAN_HAVE = {
    "EINTR": f"read,write,{_READS},{_SENDS},ppoll,poll,accept4,connect,openat,waitid,wait4,flock,fcntl@lock,fsync,pause,"
             "clock_nanosleep,getrandom,rt_sigtimedwait",
    "EAGAIN": f"{_READS},{_SENDS},read@pipe,read@anon,write@pipe,write@log,accept4,connect,{_FORKS}",
    "ECONNRESET": f"{_READS},{_SENDS}",
    "EPIPE": f"{_SENDS},write@log",
    "EMFILE": f"openat,{_NEW},fcntl@dup",
    "ENOSPC": "write@file,pwrite64,write@log,openat@create,mkdir,rename,renameat,link,symlink,bind,ftruncate,fsync,fdatasync",
    "ENOMEM": f"openat,{_NEW},{_FORKS},execve,ppoll,poll,mmap@shared,connect,bind,listen,setsockopt,recvfrom,sendto,"
              "recvmsg,sendmsg,readlink,newfstatat,statx,lstat,stat,mkdir,unlink,chdir,access,getdents64,close_range,rt_sigaction@none",
    "EIO": "read@file,pread64,write@file,pwrite64,openat@open,openat@create,newfstatat@file,faccessat,faccessat2,ftruncate,renameat,rename,fsync,fdatasync",
    "EDQUOT": "write@file,pwrite64,openat@create,ftruncate,renameat,rename,fsync,fdatasync",
}
DISK = ("EIO", "EDQUOT")    # only where files are all that matters

# Killed after the call: what another could see of it before the caller has noted it. Before the next call is a point of its own.
SEEN_BY_OTHERS = f"{_FORKS},{_SENDS},waitid,wait4,connect,accept4,socketpair,pipe2,kill,execve"

# What is done to these calls only. short: half of it is written; torn: then the disk is full.
ACTIONS = {"kill-after": SEEN_BY_OTHERS, "short": "write@file,pwrite64", "torn": "write@file,pwrite64"}

# Looking through all processes of a machine: a row of these is one loop, whose first rounds count.
LOOP = "openat@proc,read@proc,close,pidfd_open,getdents64@proc"
LOOP_CALLS = 60

# What no errno is injected into, and why. Every call is a point to be killed at.
SKIPPED = {
    "EPIPE of write to a handler's pipe": "true only if nobody reads it any more; told while one does, it gets a part for the whole",
    "close": "Linux closes whatever it says; nobody can act on it",
    "brk, mremap, mprotect, mmap of what is not shared": "the allocator's and the loader's: failing allocations stand for them",
    "munmap, madvise": "give memory back; no errno of these means anything to their caller",
    "rt_sigaction, rt_sigprocmask, sigaltstack": "fail only for wrong arguments",
    "getpid, getppid, getuid, geteuid, getgid, getegid, umask, gettid": "cannot fail",
    "setsid, prctl, prlimit64, set_tid_address, set_robust_list, arch_prctl, rseq": "have none of these errnos",
    "kill, pidfd_send_signal": "have none of these errnos (EAGAIN of queued signals is not asked for)",
    "lseek, fstat, getsockopt, getsockname, getpeername, uname, sysinfo": "have none of these errnos on what they are made on",
    "dup2, dup3": "on a number below the limit: EBADF and EBUSY only",
    "exit, exit_group": "do not return",
}


@dataclasses.dataclass(frozen=True)
class Fault:
    """kill, kill-after, kill-parent, an errno's name, short, torn, or nomem. lasting: not once, but for a while."""
    what: str
    lasting: bool = False
    calls: str = ""         # only these count, where it says nothing of its own of that

    @property
    def name(self):
        return self.what + ("+" if self.lasting else "") + ("@" + self.calls if self.calls else "")

    @property
    def kills(self):
        return self.what.startswith("kill")

    def command(self, programs, targets, directory, gated):
        """What stands before the command: `targets` is [(role, n)]. gated: nothing counts before directory/count is there."""
        report, gate = directory / "report", directory / "count"
        if self.what == "nomem":
            return ["env", f"LD_PRELOAD={programs / 'nomem.so'}", f"NOMEM_TARGETS={','.join(f'{role}:{n}' for role, n in targets)}",
                    f"NOMEM_MS={WHILE_MS if self.lasting else 0}", f"NOMEM_REPORT={report}", f"NOMEM_GATE={gate if gated else ''}"]
        out = [str(programs / "tracer"), "-o", str(report), "-l", f"{LOOP_CALLS}:{LOOP}", *(["-g", str(gate)] if gated else [])]
        for role, when in targets:
            out += ["-t", f"{role}:{when}"]
        if self.what in CAN_HAVE:
            out += ["-a", str(getattr(errno, self.what)), "-f", CAN_HAVE[self.what]]
            out += ["-d", str(WHILE_MS)] if self.lasting else []
        else:
            calls = self.calls or ACTIONS.get(self.what)
            out += ["-a", self.what, *(["-f", calls] if calls else [])]
            out += ["-d", str(WHILE_MS)] if self.lasting else []
        return [*out, "--"]

    @staticmethod
    def parse(name):
        return Fault(name.rstrip("+"), name.endswith("+"))


KILLS = [Fault("kill"), Fault("kill-after")]
ERRNOS = [Fault(e, lasting) for e in CAN_HAVE if e not in DISK for lasting in (False, True)]
DISKS = [Fault(e, lasting) for e in (*DISK, "short") for lasting in (False, True)] + [Fault("torn", True)]
NOMEM = [Fault("nomem"), Fault("nomem", True)]
