/*
 * Finds leftovers in /proc by their environment, kills them, and waits for their end. A pidfd is opened for each
 * process before its files are read, so that the process that is killed is the one that was examined.
 */
#include <sys/syscall.h>

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nettle/sha2.h>

#include "common/base/alloc.h"
#include "common/base/buffer.h"
#include "common/base/clock.h"
#include "common/base/leftovers.h"
#include "common/base/process.h"
#include "common/base/put.h"

/* bytes read at most; QUREDIS_BOOT_TOKEN stands near the front of a handler's environment */
#define ENVIRON_MAX (4u << 20)
#define STATUS_MAX 4096		/* the user ids stand near the top */
#define HELD_MAX 256		/* pidfds held at a time; a scan that finds more is not the last one */
#define QUIET_LOOKS 2		/* scans in a row that find no process of a token: then none is left */
#define LOOK_MS 5000		/* limit for one scan: a local user can fill /proc, or make it slow */
#define PAUSE_MS 50		/* before the next scan, after one that could not read a process */

struct held {
	struct leftover who;
	struct leftovers *of;
	int fd;
};

struct look {
	struct leftovers *of;		/* n_of tokens */
	size_t n_of;
	const struct leftovers_users *users;
	struct buffer text;
	struct held held[HELD_MAX];
	size_t n;
	int error;		/* errno of a process, or of /proc, that could not be read; 0: none */
	bool whole;		/* the scan came to the end of /proc and read every process */
};

void leftovers_token(const unsigned char key[LEFTOVERS_KEY_SIZE], uint64_t boot, char out[LEFTOVERS_TOKEN_SIZE])
{
	struct sha256_ctx sha;
	uint8_t digest[SHA256_DIGEST_SIZE];

	/* All inputs have one length, and half of the digest is cut off: a plain hash with the key in front is a MAC
	 * here. */
	sha256_init(&sha);
	sha256_update(&sha, LEFTOVERS_KEY_SIZE, key);
	sha256_update(&sha, sizeof(boot), (const uint8_t *)&boot);
	sha256_digest(&sha, sizeof(digest), digest);
	*put_hex(out, digest, (LEFTOVERS_TOKEN_SIZE - 1) / 2) = '\0';
}

bool leftovers_users_have(const struct leftovers_users *users, uid_t uid)
{
	for (size_t i = 0; i < users->n; i++)
		if (users->uid[i] == uid)
			return true;
	return false;
}

void leftovers_users_add(struct leftovers_users *users, uid_t uid)
{
	if (leftovers_users_have(users, uid))
		return;
	users->uid = alloc_resize(users->uid, users->n + 1, sizeof(*users->uid));
	users->uid[users->n++] = uid;
}

void leftovers_users_free(struct leftovers_users *users)
{
	free(users->uid);
	*users = (struct leftovers_users){0};
}

/* ---- one process ---- */

/*
 * A process that ended is no leftover (kernels before 6.15 answer EINVAL for a number that only a thread or a group
 * still has). A process that this user may not read could be a leftover, but only its cgroup can find it: otherwise
 * each unrelated process of that user would raise an alarm. The same holds where pidfd_open is missing, in kernels
 * before 5.3 and some sandboxes. After any other error the process may be a leftover.
 */
static void note_error(struct look *l, int error)
{
	if (error != ESRCH && error != ENOENT && error != EINVAL && error != EACCES && error != EPERM &&
	    error != ENOSYS)
		l->error = error;
}

static int read_file(struct look *l, pid_t pid, const char *name, size_t max)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	buffer_clear(&l->text);
	if (process_read_file(path, &l->text, max) == 0)
		return 0;
	note_error(l, errno);
	return -1;
}

/* The real user, not the effective one: a set-user-ID program belongs to the user who started it. */
static int real_user(struct look *l, pid_t pid, uid_t *uid)
{
	const char *line;

	if (read_file(l, pid, "status", STATUS_MAX) == -1 || (line = strstr(l->text.data, "\nUid:\t")) == NULL)
		return -1;
	return sscanf(line, "\nUid:\t%u", uid) == 1 ? 0 : -1;
}

static struct leftovers *of_token(const struct look *l, const char *token)
{
	for (size_t i = 0; i < l->n_of; i++)
		if (strcmp(l->of[i].token, token) == 0)
			return &l->of[i];
	return NULL;
}

/* The token in the environment of this process; NULL: none that is looked for. */
static struct leftovers *owner_of(pid_t pid, struct look *l)
{
	static const char name[] = LEFTOVERS_TOKEN_NAME "=";
	struct leftovers *of = NULL;

	if (read_file(l, pid, "environ", ENVIRON_MAX) == -1)
		return NULL;
	for (size_t i = 0; i < l->text.len && of == NULL; i += strlen(l->text.data + i) + 1)
		if (strncmp(l->text.data + i, name, sizeof(name) - 1) == 0)
			of = of_token(l, l->text.data + i + sizeof(name) - 1);
	return of;
}

static void kill_if_leftover(struct look *l, pid_t pid)
{
	struct held h = { .who = { .pid = pid }, .fd = (int)syscall(SYS_pidfd_open, pid, 0u) };

	if (h.fd == -1) {
		note_error(l, errno);
		return;
	}
	if (real_user(l, pid, &h.who.uid) == 0 && leftovers_users_have(l->users, h.who.uid) &&
	    (h.of = owner_of(pid, l)) != NULL) {
		if (syscall(SYS_pidfd_send_signal, h.fd, SIGKILL, NULL, 0u) == -1)
			h.who.error = errno;
		if (h.who.error != ESRCH) {
			l->held[l->n++] = h;
			return;
		}
	}
	close(h.fd);
}

/* ---- all of them ---- */

/* The next entry of /proc; NULL: the end, or l->error. Without descriptors or memory the rest cannot be read either. */
static struct dirent *next_entry(struct look *l, DIR *dir)
{
	struct dirent *e;

	if (process_error_is_shortage(l->error))
		return NULL;
	errno = 0;
	e = readdir(dir);
	if (e == NULL && errno != 0)
		l->error = errno;
	l->whole = e == NULL && l->error == 0;
	return e;
}

static void scan_processes(struct look *l)
{
	int64_t end_ms = clock_monotonic_ms() + LOOK_MS;
	DIR *dir = opendir("/proc");
	pid_t self = getpid();
	struct dirent *e;

	l->n = 0;
	l->whole = false;
	l->error = dir == NULL ? errno : 0;
	while (dir != NULL && l->n < HELD_MAX && clock_monotonic_ms() < end_ms && (e = next_entry(l, dir)) != NULL) {
		pid_t pid = isdigit((unsigned char)e->d_name[0]) ? (pid_t)strtol(e->d_name, NULL, 10) : 0;

		if (pid > 0 && pid != self)
			kill_if_leftover(l, pid);
	}
	if (dir != NULL)
		closedir(dir);
}

static bool has_ended(int pidfd, int64_t deadline_ms)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	int64_t left_ms = deadline_ms - clock_monotonic_ms();
	int n;

	do
		n = poll(&p, 1, left_ms < 0 ? 0 : left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
	while (n == -1 && errno == EINTR);
	return n > 0;
}

/* All have been sent SIGKILL before, so one deadline is enough for all. */
static void await_ends(struct look *l, int64_t deadline_ms)
{
	for (size_t i = 0; i < l->n_of; i++)
		l->of[i].alive = l->of[i].nlisted = l->of[i].ended = 0;
	for (size_t i = 0; i < l->n; i++) {
		struct held *h = &l->held[i];
		struct leftovers *of = h->of;

		if (has_ended(h->fd, h->who.error == 0 ? deadline_ms : 0)) {
			of->killed++;
			of->ended++;
		} else {
			of->alive++;
			if (of->nlisted < LEFTOVERS_LISTED)
				of->listed[of->nlisted++] = h->who;
		}
		close(h->fd);
	}
}

/* The next step after a scan. CONFIRM: the scan found no process of some token for the first time, so one more scan
 * must agree. */
enum next { DONE, CONFIRM, AGAIN };

static enum next choose_next(const struct look *l)
{
	enum next next = l->whole ? DONE : AGAIN;

	for (size_t i = 0; i < l->n_of; i++) {
		struct leftovers *of = &l->of[i];

		of->error = l->error;
		of->quiet = !l->whole || of->ended + of->alive > 0 ? 0 : of->quiet + 1;
		of->breeding = of->error == 0 && of->quiet < QUIET_LOOKS && (of->ended > 0 || of->alive == 0);
		if (of->ended > 0)
			next = AGAIN;
		else if (of->quiet > 0 && of->quiet < QUIET_LOOKS && next == DONE)
			next = CONFIRM;
	}
	return next;
}

static bool none_is_left(const struct look *l)
{
	for (size_t i = 0; i < l->n_of; i++)
		if (l->of[i].quiet < QUIET_LOOKS)
			return false;
	return true;
}

/*
 * A scan after which no process ended is not repeated for those that stay. A scan that only confirms may exceed the
 * deadline: scans are slow on a host with many processes.
 */
int leftovers_kill(struct leftovers *of, size_t n, const struct leftovers_users *users, int64_t timeout_ms)
{
	int64_t deadline_ms = clock_monotonic_ms() + timeout_ms;
	struct look *l = alloc_zero(1, sizeof(*l));
	enum next next;
	int rc;

	l->of = of;
	l->n_of = n;
	l->users = users;
	for (size_t i = 0; i < n; i++) {
		of[i].killed = 0;
		of[i].quiet = 0;
	}
	do {
		scan_processes(l);
		await_ends(l, deadline_ms);
		next = choose_next(l);
		if (l->error != 0)
			clock_pause_ms(PAUSE_MS);
	} while (next == CONFIRM || (next == AGAIN && clock_monotonic_ms() < deadline_ms));
	rc = none_is_left(l) ? 0 : -1;
	buffer_free(&l->text);
	free(l);
	return rc;
}
