/* Lookups of host names, each by a thread of its own: see resolve.h. The main thread owns the list and all fields but
 * those of the answer. */
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>
#include <bsd/sys/queue.h>

#include "common/redis/resolve.h"

#include "common/base/base.h"

#define ADDRESSES_MAX 8
#define NAMES_MAX 128			/* kept for their good addresses: a Cluster may name many hosts */
/*
 * An answer that came so long ago, when no opening waited for it, is asked for again. It outlives the longest back-off:
 * where a resolver always takes longer than RECALL_MS, the second attempt must not go to a remembered address that is
 * dead.
 */
#define ANSWER_STALE_MS 60000

struct lookup {
	LIST_ENTRY(lookup) entry;
	char host[256];
	int fd;				/* an eventfd; the thread writes it once, just before `answered` */
	unsigned users;			/* openings that have not called resolve_end() */
	bool busy;			/* a thread runs, or its answer was not taken yet */
	char good[RESOLVE_ADDRESS_SIZE];	/* see resolve_recall(); "": none */
	unsigned turn;			/* which address of the answer comes next */
	/* The answer. The thread writes it before `answered`, and nobody else while the lookup is busy. */
	_Atomic bool answered;
	int error;			/* of getaddrinfo(3); 0: there is an address */
	int error_errno;		/* of EAI_SYSTEM */
	int64_t answered_ms;
	size_t naddresses;
	char addresses[ADDRESSES_MAX][RESOLVE_ADDRESS_SIZE];
};

/* Most recently used first. */
static LIST_HEAD(, lookup) lookups = LIST_HEAD_INITIALIZER(lookups);
static pid_t lookups_pid;		/* the process that has the threads */
static struct resolve_shared *shared;	/* NULL: this process is a command, or a program that shares nothing */

bool resolve_is_numeric(const char *host)
{
	struct in6_addr six;
	struct in_addr four;
	char plain[RESOLVE_ADDRESS_SIZE];

	if (inet_pton(AF_INET, host, &four) == 1)
		return true;
	strlcpy(plain, host, sizeof(plain));
	plain[strcspn(plain, "%")] = '\0';	/* fe80::1%eth0 */
	return inet_pton(AF_INET6, plain, &six) == 1;
}

/* ---- the thread ---- */

static int ask_resolver(struct lookup *l, int family)
{
	struct addrinfo hints = { .ai_family = family, .ai_socktype = SOCK_STREAM }, *found = NULL;
	int error = getaddrinfo(l->host, NULL, &hints, &found);

	l->error_errno = errno;
	l->naddresses = 0;
	for (const struct addrinfo *a = found; error == 0 && a != NULL && l->naddresses < ADDRESSES_MAX; a = a->ai_next)
		if (getnameinfo(a->ai_addr, a->ai_addrlen, l->addresses[l->naddresses], RESOLVE_ADDRESS_SIZE, NULL, 0,
		    NI_NUMERICHOST) == 0)
			l->naddresses++;
	if (error == 0)
		freeaddrinfo(found);
	return error == 0 && l->naddresses == 0 ? EAI_NONAME : error;
}

/* The resolver knows that there is no such address. With any other error it could not tell. */
static bool is_denial(int error)
{
	return error == EAI_NONAME || error == EAI_NODATA || error == EAI_ADDRFAMILY;
}

/* Addresses of IPv4 first, as hiredis has them: those of IPv6 only if there are none. */
static void *run_lookup(void *arg)
{
	struct lookup *l = arg;
	uint64_t one = 1;
	ssize_t n;
	int unsure;

	l->error = ask_resolver(l, AF_INET);
	if (l->error != 0) {
		unsure = is_denial(l->error) ? 0 : l->error;
		l->error = ask_resolver(l, AF_INET6);
		if (is_denial(l->error) && unsure != 0)
			l->error = unsure;
	}
	l->answered_ms = clock_monotonic_ms();
	n = write(l->fd, &one, sizeof(one));	/* cannot fail: the counter is 0 */
	(void)n;
	/* the last access: the main thread may begin the next lookup at once, or free this one */
	atomic_store(&l->answered, true);
	return NULL;
}

/* ---- the main thread ---- */

static int start_thread(struct lookup *l)
{
	pthread_attr_t attr;
	sigset_t all, before;
	pthread_t thread;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	error = pthread_create(&thread, &attr, run_lookup, l);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

/* Without a thread there is an answer at once: that the system has none. */
static void start_lookup(struct lookup *l, int64_t now_ms)
{
	uint64_t count;
	ssize_t n = read(l->fd, &count, sizeof(count));		/* of the answer before; EAGAIN: none */
	int error;

	(void)n;
	l->busy = true;
	atomic_store(&l->answered, false);
	error = start_thread(l);
	if (error == 0)
		return;
	l->error = EAI_SYSTEM;
	l->error_errno = error;
	l->answered_ms = now_ms;
	atomic_store(&l->answered, true);
}

static void free_lookup(struct lookup *l)
{
	LIST_REMOVE(l, entry);
	close(l->fd);
	free(l);
}

/* The eventfd of a parent is shared with it, so a forked child must not read it. */
static void forget_parent(void)
{
	struct lookup *l, *next;

	if (lookups_pid != 0 && lookups_pid != getpid())
		LIST_FOREACH_SAFE(l, &lookups, entry, next)
			free_lookup(l);
	lookups_pid = getpid();
}

/* Frees the names that were not used for longest. */
static void forget_oldest(void)
{
	struct lookup *l, *next;
	unsigned n = 0;

	LIST_FOREACH_SAFE(l, &lookups, entry, next)
		if (++n > NAMES_MAX && !l->busy && l->users == 0)
			free_lookup(l);
}

static struct lookup *find_lookup(const char *host)
{
	struct lookup *l;

	LIST_FOREACH(l, &lookups, entry)
		if (strcmp(l->host, host) == 0) {
			LIST_REMOVE(l, entry);
			LIST_INSERT_HEAD(&lookups, l, entry);
			return l;
		}
	l = alloc_zero(1, sizeof(*l));
	strlcpy(l->host, host, sizeof(l->host));
	l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->fd == -1) {
		free(l);
		return NULL;
	}
	LIST_INSERT_HEAD(&lookups, l, entry);
	forget_oldest();
	return l;
}

struct lookup *resolve_begin(const char *host, int64_t now_ms)
{
	struct lookup *l;

	forget_parent();
	l = find_lookup(host);
	if (l == NULL)
		return NULL;
	l->users++;
	if (l->busy && atomic_load(&l->answered) && now_ms - l->answered_ms > ANSWER_STALE_MS)
		l->busy = false;
	if (!l->busy)
		start_lookup(l, now_ms);
	return l;
}

void resolve_end(struct lookup *l)
{
	l->users--;
}

int resolve_fd(const struct lookup *l)
{
	return l->fd;
}

static const char *error_text(const struct lookup *l)
{
	return l->error == EAI_SYSTEM ? strerror(l->error_errno) : gai_strerror(l->error);
}

int resolve_take(struct lookup *l, char address[RESOLVE_ADDRESS_SIZE], const char **why, bool *denied)
{
	if (!atomic_load(&l->answered))
		return 0;
	l->busy = false;	/* another opening that waits for it takes the same answer */
	*denied = is_denial(l->error);
	*why = error_text(l);
	if (l->error != 0)
		return -1;
	strlcpy(address, l->addresses[l->turn % l->naddresses], RESOLVE_ADDRESS_SIZE);
	return 1;
}

/* ---- what processes share ---- */

union numeric {
	struct in6_addr six;
	uint64_t words[2];
};

void resolve_share(struct resolve_shared *s)
{
	shared = s;
}

static struct resolve_shared_address *place_of(const char *host)
{
	return &shared->addresses[hash_text(HASH_EMPTY, host) % RESOLVE_SHARED_PLACES];
}

static uint64_t mark_of(const char *host, const union numeric *n)
{
	uint64_t mark = hash_text(HASH_EMPTY, host);

	for (size_t i = 0; i < sizeof(n->six.s6_addr); i++)
		mark = hash_byte(mark, n->six.s6_addr[i]);
	return mark;
}

/* An address with a scope ("fe80::1%eth0") has no number that fits, and is not shared. */
static bool read_numeric(const char *address, union numeric *out)
{
	char mapped[RESOLVE_ADDRESS_SIZE + sizeof("::ffff:")];

	if (inet_pton(AF_INET6, address, &out->six) == 1)
		return true;
	snprintf(mapped, sizeof(mapped), "::ffff:%s", address);
	return inet_pton(AF_INET6, mapped, &out->six) == 1;
}

static void share_good(const struct lookup *l)
{
	struct resolve_shared_address *place;
	union numeric n;

	if (shared == NULL || !read_numeric(l->good, &n))
		return;
	place = place_of(l->host);
	for (int i = 0; i < 2; i++)
		atomic_store(&place->words[i], n.words[i]);
	atomic_store(&place->mark, mark_of(l->host, &n));
}

static bool recall_shared(const struct lookup *l, char address[RESOLVE_ADDRESS_SIZE])
{
	struct resolve_shared_address *place;
	union numeric n;

	if (shared == NULL)
		return false;
	place = place_of(l->host);
	for (int i = 0; i < 2; i++)
		n.words[i] = atomic_load(&place->words[i]);
	if (atomic_load(&place->mark) != mark_of(l->host, &n))
		return false;
	if (IN6_IS_ADDR_V4MAPPED(&n.six))
		return inet_ntop(AF_INET, &n.six.s6_addr[12], address, RESOLVE_ADDRESS_SIZE) != NULL;
	return inet_ntop(AF_INET6, &n.six, address, RESOLVE_ADDRESS_SIZE) != NULL;
}

/* This process shares what it knows, so what is shared is at least as new. */
bool resolve_recall(const struct lookup *l, char address[RESOLVE_ADDRESS_SIZE])
{
	if (recall_shared(l, address))
		return true;
	strlcpy(address, l->good, RESOLVE_ADDRESS_SIZE);
	return l->good[0] != '\0';
}

void resolve_note(struct lookup *l, const char *address, bool good)
{
	if (!good) {
		l->turn++;
		return;
	}
	strlcpy(l->good, address, sizeof(l->good));
	share_good(l);
}
