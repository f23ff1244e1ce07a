#ifndef COMMON_REDIS_RESOLVE_H
#define COMMON_REDIS_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Resolves host names without blocking the caller: a resolver may need a minute, and cannot be interrupted, while
 * handlers, leases and orders go on. A thread that touches nothing else calls getaddrinfo(3), so /etc/nsswitch.conf is
 * honoured. The connections of a process share its lookups, and a hanging resolver holds one thread for each name.
 *
 * A thread, not a process: a worker waits for all its children, to know that nothing of a handler is left. The thread
 * blocks all signals, so they reach the main thread. Handlers are made by vfork and raw system calls
 * (common/handler/spawn.c), which other threads do not disturb. A child that was forked without exec has no thread: it
 * forgets the lookups of its parent, and begins its own.
 */
struct lookup;

#define RESOLVE_ADDRESS_SIZE 64

bool resolve_is_numeric(const char *host);
/* Begins to resolve the name, unless a lookup is under way. NULL: no descriptor could be had (errno). Every other
 * return needs a resolve_end(). */
struct lookup *resolve_begin(const char *host, int64_t now_ms);
void resolve_end(struct lookup *l);
int resolve_fd(const struct lookup *l);		/* readable when there is an answer */
/* 1: address is where to connect to. 0: no answer yet. -1: there is none; why says so, until resolve_end(), and *denied
 * is true if the name does not exist */
int resolve_take(struct lookup *l, char address[RESOLVE_ADDRESS_SIZE], const char **why, bool *denied);
/*
 * The address of the last connection to this name that could be opened, by any process that shares the memory below.
 * False: none. For a caller that the resolver keeps waiting.
 */
bool resolve_recall(const struct lookup *l, char address[RESOLVE_ADDRESS_SIZE]);
void resolve_note(struct lookup *l, const char *address, bool good);	/* whether a connection to it could be opened */

/*
 * The addresses of the last good connections, in shared memory (scoreboard.h), zeroed at first: the workers of a reload
 * meet a resolver that hangs, and have had no connection yet. Two names may claim one place: then the later one has it.
 * Processes write without a lock, and may be killed at any point.
 */
#define RESOLVE_SHARED_PLACES 64
struct resolve_shared {
	struct resolve_shared_address {
		/* of the name and both words: an address with another mark is torn, or another name's */
		_Atomic uint64_t mark;
		_Atomic uint64_t words[2];	/* an address of IPv6, or one of IPv4 that is mapped into it */
	} addresses[RESOLVE_SHARED_PLACES];
};
void resolve_share(struct resolve_shared *s);	/* from now on; the caller owns s, which must outlive the process */

#endif
