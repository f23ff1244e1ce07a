/*
 * The search for leftovers of dead boots, in the process that may do it. A sweeper that gave up root's rights cannot
 * read the environment of handlers of other users, nor kill them. So the process from which it comes forks once more
 * before that: a child that keeps these two rights and hears nothing but numbers. It computes tokens and names of
 * groups from its own copy of the lock's key, so nothing that its sweeper says can make it touch a process that has not
 * the token of this lock file.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "sweeper/rescue/search.h"

#include "sweeper/core/core.h"

#define ROUND_MS 1000
#define BOOTS_MAX 10000		/* of one request; more need several */

enum search_kind { SEARCH_GROUPS, SEARCH_PROCESSES };

struct search_request {		/* n boots follow; the answer is an array of n results */
	enum search_kind kind;
	size_t n;
};

/* ---- the round ---- */

static void kill_groups(const struct child *child, const uint64_t *boots, struct cgroup_dead *groups, size_t n)
{
	char token[LEFTOVERS_TOKEN_SIZE];

	for (size_t i = 0; i < n; i++) {
		leftovers_token(child->lock_key, boots[i], token);
		cgroup_name(token, groups[i].name);
	}
	cgroup_kill(groups, n, ROUND_MS);
}

static void kill_processes(const struct child *child, const uint64_t *boots, struct leftovers *found, size_t n)
{
	for (size_t i = 0; i < n; i++)
		leftovers_token(child->lock_key, boots[i], found[i].token);
	leftovers_kill(found, n, child->handler_users, ROUND_MS);
}

/* ---- the two ends ---- */

static int read_whole(int fd, void *to, size_t len)
{
	ssize_t n;

	for (char *p = to; len > 0; p += n, len -= (size_t)n) {
		do
			n = read(fd, p, len);
		while (n == -1 && errno == EINTR);
		if (n <= 0)
			return -1;
	}
	return 0;
}

static int write_whole(int fd, const void *from, size_t len)
{
	ssize_t n;

	for (const char *p = from; len > 0; p += n, len -= (size_t)n) {
		do
			n = write(fd, p, len);
		while (n == -1 && errno == EINTR);
		if (n == -1)
			return -1;
	}
	return 0;
}

static int answer_request(const struct child *child, int fd)
{
	struct search_request r;
	struct cgroup_dead *groups;
	struct leftovers *found;
	uint64_t *boots;
	int rc = -1;

	if (read_whole(fd, &r, sizeof(r)) == -1 || r.n > BOOTS_MAX)
		return -1;
	boots = alloc_zero(r.n + 1, sizeof(*boots));
	groups = alloc_zero(r.kind == SEARCH_GROUPS ? r.n + 1 : 1, sizeof(*groups));
	found = alloc_zero(r.kind == SEARCH_PROCESSES ? r.n + 1 : 1, sizeof(*found));
	if (read_whole(fd, boots, r.n * sizeof(*boots)) == -1) {
		rc = -1;
	} else if (r.kind == SEARCH_GROUPS) {
		kill_groups(child, boots, groups, r.n);
		rc = write_whole(fd, groups, r.n * sizeof(*groups));
	} else if (r.kind == SEARCH_PROCESSES) {
		kill_processes(child, boots, found, r.n);
		rc = write_whole(fd, found, r.n * sizeof(*found));
	}
	free(boots);
	free(groups);
	free(found);
	return rc;
}

_Noreturn void search_serve(const struct child *child, int fd)
{
	while (answer_request(child, fd) == 0)
		;
	_exit(CHILD_EXIT_DONE);		/* the sweeper has ended */
}

static void ask_search(const struct child *child, enum search_kind kind, const uint64_t *boots, void *results, size_t n,
    size_t size)
{
	int fd = child->search_fd;

	for (size_t i = 0; i < n; i += BOOTS_MAX) {
		const struct search_request r = { kind, n - i < BOOTS_MAX ? n - i : BOOTS_MAX };

		if (write_whole(fd, &r, sizeof(r)) == -1 || write_whole(fd, boots + i, r.n * sizeof(*boots)) == -1 ||
		    read_whole(fd, (char *)results + i * size, r.n * size) == -1)
			core_lost_search(child);
	}
}

/* ---- in the sweeper ---- */

void search_groups(const struct child *child, const uint64_t *boots, struct cgroup_dead *groups, size_t n)
{
	if (child->search_pid == 0)
		kill_groups(child, boots, groups, n);
	else
		ask_search(child, SEARCH_GROUPS, boots, groups, n, sizeof(*groups));
}

void search_processes(const struct child *child, const uint64_t *boots, struct leftovers *found, size_t n)
{
	if (child->search_pid == 0)
		kill_processes(child, boots, found, n);
	else
		ask_search(child, SEARCH_PROCESSES, boots, found, n, sizeof(*found));
}
