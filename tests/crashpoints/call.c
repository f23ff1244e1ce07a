/* A system call of another process: its name, what it is made on, how it is kept from being made. */
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/crashpoints/call.h"

static const struct {
	const char *name;
	long nr;
} names[] = {
#include "calls.h"
};

const char *call_name(long nr)
{
	static char number[24];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].nr == nr)
			return names[i].name;
	snprintf(number, sizeof(number), "%ld", nr);
	return number;
}

/* ---- what a call is made on ---- */

static bool descriptor(pid_t pid, int fd, char to[64])
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	n = readlink(path, to, 63);
	to[n == -1 ? 0 : n] = '\0';
	return n != -1;
}

static const char *kind_of_descriptor(pid_t pid, int fd)
{
	char to[64], log[64];

	if (!descriptor(pid, fd, to))
		return "closed";
	if (descriptor(pid, STDERR_FILENO, log) && strcmp(to, log) == 0)
		return "log";
	return strncmp(to, "socket:", 7) == 0 ? "socket"
	     : strncmp(to, "pipe:", 5) == 0   ? "pipe"
	     : strncmp(to, "anon_", 5) == 0   ? "anon"
	     : strncmp(to, "/proc/", 6) == 0  ? "proc"
	     : strncmp(to, "/dev/", 5) == 0   ? "device"
					      : "file";
}

static const char *kind_of_path(pid_t pid, uint64_t address, uint64_t flags)
{
	char start[8] = "";
	struct iovec here = { start, sizeof(start) - 2 }, there = { (void *)(uintptr_t)address, sizeof(start) - 2 };

	if (process_vm_readv(pid, &here, 1, &there, 1, 0) > 0 && strcmp(start, "/proc/") == 0)
		return "proc";
	return (flags & O_CREAT) != 0 ? "create" : "open";
}

const char *call_kind(pid_t pid, long nr, const uint64_t *args)
{
	static const char *const on_descriptor[] = { "read", "write", "readv", "writev", "recvfrom", "sendto", "recvmsg",
		"sendmsg", "fstat", "newfstatat", "close", "ftruncate", "getdents64", "flock" };
	const char *name = call_name(nr);

	if (strcmp(name, "openat") == 0)
		return kind_of_path(pid, args[1], args[2]);
	if (strcmp(name, "mmap") == 0)
		return (args[3] & MAP_SHARED) != 0 ? "shared" : "private";
	if (strcmp(name, "fcntl") == 0)
		return args[1] == F_DUPFD || args[1] == F_DUPFD_CLOEXEC ? "dup" : "flags";
	for (size_t i = 0; i < sizeof(on_descriptor) / sizeof(on_descriptor[0]); i++)
		if (strcmp(name, on_descriptor[i]) == 0)
			return kind_of_descriptor(pid, (int)args[0]);
	return "-";
}

bool call_is_named(const char *words, const char *name, const char *kind)
{
	char both[96];
	size_t len;

	snprintf(both, sizeof(both), "%s@%s", name, kind);
	for (const char *p = words; *p != '\0'; p += len + (p[len] == ',')) {
		len = strcspn(p, ",");
		if ((len == strlen(name) && strncmp(p, name, len) == 0) || (len == strlen(both) && strncmp(p, both, len) == 0))
			return true;
	}
	return false;
}

/* ---- registers ---- */

#if defined(__x86_64__)
void call_skip(pid_t pid)
{
	ptrace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, orig_rax), -1L);
}

void call_set_result(pid_t pid, long result)
{
	ptrace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, rax), result);
}

void call_set_length(pid_t pid, uint64_t length)
{
	ptrace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, rdx), length);
}
#elif defined(__aarch64__)
void call_skip(pid_t pid)
{
	int none = -1;
	struct iovec iov = { &none, sizeof(none) };

	ptrace(PTRACE_SETREGSET, pid, NT_ARM_SYSTEM_CALL, &iov);
}

static void set_register(pid_t pid, int n, unsigned long long value)
{
	struct user_regs_struct regs;
	struct iovec iov = { &regs, sizeof(regs) };

	ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &iov);
	regs.regs[n] = value;
	ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &iov);
}

void call_set_result(pid_t pid, long result)
{
	set_register(pid, 0, (unsigned long long)result);
}

void call_set_length(pid_t pid, uint64_t length)
{
	set_register(pid, 2, length);
}
#else
#error "which register holds the number of a system call here?"
#endif
