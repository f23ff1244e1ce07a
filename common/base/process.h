#ifndef COMMON_BASE_PROCESS_H
#define COMMON_BASE_PROCESS_H

#include <sys/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buffer;

/*
 * Children of this process and other processes. The caller is a child subreaper, so the processes that a dead child
 * leaves behind become its own children.
 */
int process_become_subreaper(void);

/*
 * Other processes of the same user cannot read this one's memory: by /proc, ptrace(2) or a core file. Children inherit
 * it, exec resets it, and so does a change of the user. On kernels with fs.suid_dumpable = 2, root gets a core after
 * such a change.
 */
void process_hide_memory(bool hide);

/* Sends SIGKILL once to every direct child that `spare` does not accept, without waiting. Returns how many got it.
 * spare NULL: all. */
size_t process_kill_children(bool (*spare)(pid_t pid, void *arg), void *arg);

/*
 * The same, and reaps, until no such child is left or timeout_ms has passed (CLOCK_MONOTONIC). Drops their statuses.
 * Returns -1 on timeout.
 */
int process_kill_children_wait(bool (*spare)(pid_t pid, void *arg), void *arg, int64_t timeout_ms);

/* Appends up to about max bytes of a file of /proc to b, and a NUL. -1: it cannot be opened or read (errno) */
int process_read_file(const char *path, struct buffer *b, size_t max);

/* This process lacks descriptors or memory: the error says nothing about the file or process that it was to open. */
bool process_error_is_shortage(int error);

/* Sets default dispositions and an empty mask: between fork and exec, and at the start of a child. */
void process_reset_signals(void);

/* The signals that process_reset_signals() would have to change: bit n - 1 for signal n. */
uint64_t process_changed_signals(void);
/*
 * Sets the default disposition of these signals only. A child that shares its parent's memory must run none of its
 * handlers, so all signals that are not at their default count, also those that exec would reset.
 */
void process_default_signals(uint64_t signals);

/* close_range(2) from `from` upwards, or what libbsd's closefrom does where the kernel lacks it. Async-signal-safe
 * where the kernel has it. */
void process_close_from(int from);

/* The same at the next exec. -1: this kernel cannot do that */
int process_close_on_exec_from(int from);

int64_t process_resident_bytes(pid_t pid);	/* of memory; -1: not visible */

#define PROCESS_BOOT_ID_SIZE 64
int process_boot_id(char out[PROCESS_BOOT_ID_SIZE]);	/* of this start of the machine; -1: cannot be read */

int process_signal_number(const char *name, size_t len);	/* of such a name; 0: it is none */
const char *process_signal_name(int sig);	/* "SIGKILL"; "SIG35" for the nameless */

#endif
