/* ldflags: -Wl,--wrap=getaddrinfo */
/* Host names: a resolver that hangs, changes its mind, does not know, or denies. The resolver is this test. */
#include <sys/mman.h>
#include <sys/wait.h>

#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "common/base/base.h"
#include "common/redis/redis.h"
#include "common/redis/resolve.h"
#include "tests/unit/unit.h"

int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct {
	bool hangs;
	int error;
	const char *address;
	int asked, asleep;		/* questions so far; those that hang now */
	sigset_t mask;			/* of the thread that asked last */
} resolver;

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
	int error;

	if (strchr(node, '.') == NULL || strstr(node, "example") == NULL)
		return __real_getaddrinfo(node, service, hints, out);
	if (hints->ai_family != AF_INET)
		return EAI_NONAME;
	pthread_mutex_lock(&lock);
	pthread_sigmask(SIG_SETMASK, NULL, &resolver.mask);
	resolver.asked++;
	resolver.asleep++;
	pthread_cond_broadcast(&changed);
	while (resolver.hangs)
		pthread_cond_wait(&changed, &lock);
	resolver.asleep--;
	error = resolver.error != 0 ? resolver.error : __real_getaddrinfo(resolver.address, NULL, hints, out);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return error;
}

static void set_resolver(bool hangs, int error, const char *address)
{
	pthread_mutex_lock(&lock);
	resolver.hangs = hangs;
	resolver.error = error;
	resolver.address = address;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static int wait_asked(int n)
{
	pthread_mutex_lock(&lock);
	while (resolver.asked < n)
		pthread_cond_wait(&changed, &lock);
	n = resolver.asked;
	pthread_mutex_unlock(&lock);
	return n;
}

/* The descriptor is readable a moment before the answer can be taken. */
static void wait_answer(struct lookup *l)
{
	struct pollfd p = { .fd = resolve_fd(l), .events = POLLIN };
	char address[RESOLVE_ADDRESS_SIZE];
	const char *why;
	bool denied;

	do
		assert_int_equal(poll(&p, 1, 60000), 1);
	while (resolve_take(l, address, &why, &denied) == 0);
}

static int setup(void **state)
{
	(void)state;
	resolver.asked = 0;
	set_resolver(false, 0, "192.0.2.1");
	return 0;
}

/* Resolves the name; the address is "" if that fails. */
static int ask(const char *host, char address[RESOLVE_ADDRESS_SIZE], bool *denied)
{
	struct lookup *l = resolve_begin(host, 0);
	const char *why;
	int rc;

	wait_answer(l);
	address[0] = '\0';
	rc = resolve_take(l, address, &why, denied);
	resolve_end(l);
	return rc;
}

TEST(numbers_need_no_resolver, setup)
{
	assert_true(resolve_is_numeric("127.0.0.1"));
	assert_true(resolve_is_numeric("::1"));
	assert_true(resolve_is_numeric("fe80::1%eth0"));
	assert_false(resolve_is_numeric("localhost"));
	assert_false(resolve_is_numeric("1.example"));
	assert_false(resolve_is_numeric(""));
}

TEST(each_opening_asks_again, setup)
{
	char address[RESOLVE_ADDRESS_SIZE];
	bool denied;

	assert_int_equal(ask("again.example", address, &denied), 1);
	assert_string_equal(address, "192.0.2.1");
	assert_true(sigismember(&resolver.mask, SIGTERM));
	set_resolver(false, 0, "192.0.2.2");
	assert_int_equal(ask("again.example", address, &denied), 1);
	assert_string_equal(address, "192.0.2.2");
	assert_int_equal(resolver.asked, 2);
}

/* What a process of the same supervisor has learnt; a torn address, and one of another name, count as none. */
TEST(processes_share_good_addresses, setup)
{
	static const char *const addresses[] = { "192.0.2.7", "2001:db8::7" };
	struct resolve_shared *memory = mmap(NULL, sizeof(*memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char address[RESOLVE_ADDRESS_SIZE];
	struct lookup *l = resolve_begin("shared.example", 0), *other = resolve_begin("other.example", 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	resolve_share(memory);
	assert_false(resolve_recall(l, address));
	for (size_t i = 0; i < 2; i++) {
		pid_t child = fork();

		if (child == 0) {
			resolve_note(resolve_begin("shared.example", 0), addresses[i], true);
			_exit(0);
		}
		assert_int_equal(waitpid(child, NULL, 0), child);
		assert_true(resolve_recall(l, address));
		assert_string_equal(address, addresses[i]);
		assert_false(resolve_recall(other, address));
	}
	for (size_t i = 0; i < RESOLVE_SHARED_PLACES; i++)
		memory->addresses[i].words[0] ^= 1;
	assert_false(resolve_recall(l, address));
	resolve_note(l, "fe80::1%eth0", true);
	assert_true(resolve_recall(l, address));
	assert_string_equal(address, "fe80::1%eth0");
	resolve_share(NULL);
	munmap(memory, sizeof(*memory));
	wait_answer(l);		/* else their threads would ask during the next test, which counts */
	wait_answer(other);
	resolve_end(l);
	resolve_end(other);
}

/* However many openings wait for it, and give up. */
TEST(a_resolver_that_hangs_holds_one_thread, setup)
{
	char address[RESOLVE_ADDRESS_SIZE];
	const char *why;
	struct lookup *l;
	bool denied;

	set_resolver(true, 0, "192.0.2.1");
	for (int i = 0; i < 10; i++) {
		l = resolve_begin("hangs.example", 0);
		wait_asked(1);
		assert_int_equal(resolve_take(l, address, &why, &denied), 0);
		resolve_end(l);
	}
	assert_int_equal(resolver.asked, 1);
	set_resolver(false, 0, "192.0.2.1");
	l = resolve_begin("hangs.example", 0);
	wait_answer(l);
	assert_int_equal(resolve_take(l, address, &why, &denied), 1);
	resolve_end(l);
	assert_int_equal(resolver.asked, 1);
}

/* No opening waited for the answer, and the name may lead elsewhere now. */
TEST(an_old_answer_is_asked_for_again, setup)
{
	char address[RESOLVE_ADDRESS_SIZE];
	struct lookup *l = resolve_begin("old.example", 0);
	const char *why;
	bool denied;

	assert_int_equal(wait_asked(1), 1);
	while (wait_asked(1) == 1) {		/* until it is answered; then the next one asks again */
		resolve_end(l);
		l = resolve_begin("old.example", clock_monotonic_ms() + 61000);
		set_resolver(false, 0, "192.0.2.2");
	}
	wait_answer(l);
	assert_int_equal(resolve_take(l, address, &why, &denied), 1);
	assert_string_equal(address, "192.0.2.2");
	resolve_end(l);
}

TEST(only_a_resolver_that_knows_denies, setup)
{
	char address[RESOLVE_ADDRESS_SIZE];
	bool denied;

	set_resolver(false, EAI_AGAIN, NULL);
	assert_int_equal(ask("unsure.example", address, &denied), -1);
	assert_false(denied);
	set_resolver(false, EAI_NONAME, NULL);
	assert_int_equal(ask("unsure.example", address, &denied), -1);
	assert_true(denied);
}

/* It has no thread, and the descriptor of its parent's lookup is not its own. */
TEST(a_forked_child_begins_its_own, setup)
{
	struct lookup *l = resolve_begin("forked.example", 0);
	int status;
	pid_t pid;

	wait_answer(l);
	set_resolver(true, 0, "192.0.2.1");
	resolve_end(resolve_begin("parent.example", 0));
	wait_asked(2);
	pid = fork();
	if (pid == 0) {
		char address[RESOLVE_ADDRESS_SIZE];
		bool denied;

		set_resolver(false, 0, "192.0.2.3");
		_exit(ask("parent.example", address, &denied) == 1 && strcmp(address, "192.0.2.3") == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	set_resolver(false, 0, "192.0.2.1");
	resolve_end(l);
}

/* ---- openings ---- */

struct opening {
	struct redis_target target;
	struct redis r;
};

static void target_of(struct opening *o, const char *url)
{
	const struct redis_options options = { .url = url };
	char error[256];

	assert_int_equal(redis_target_parse(&o->target, &options, error, sizeof(error)), 0);
	redis_init(&o->r, &o->target, NULL);
}

static void done_with(struct opening *o)
{
	redis_close(&o->r, NULL);
	redis_target_free(&o->target);
}

TEST(an_opening_waits_for_its_name_and_nobody_else, setup)
{
	struct opening o;
	struct pollfd p;

	set_resolver(true, 0, "127.0.0.1");
	target_of(&o, "redis://opening.example:1");
	assert_int_equal(redis_open(&o.r, 1000), 0);
	assert_true(redis_resolves(&o.r));
	assert_true(redis_pollfd(&o.r, &p));
	assert_int_equal(p.events, POLLIN);
	assert_int_equal(redis_pump(&o.r, 1000 + 60000), 0);
	assert_int_equal(redis_pump(&o.r, 1000 + 60001), -1);
	assert_string_equal(o.r.error, "redis://opening.example:1/0: the host name is still being resolved");
	set_resolver(false, 0, "127.0.0.1");
	done_with(&o);
}

/* Of several servers the next one may have a name that resolves. */
TEST(the_next_server_is_tried_meanwhile, setup)
{
	struct opening o;

	set_resolver(true, 0, "127.0.0.1");
	target_of(&o, "redis://slow.example:1,127.0.0.1:1");
	assert_int_equal(redis_open(&o.r, 1000), 0);
	assert_int_equal(redis_pump(&o.r, 1000 + REDIS_TIMEOUT_MS + 1), -1);
	redis_open(&o.r, 10000);
	assert_false(redis_resolves(&o.r));
	assert_int_equal(o.r.route.at == 1 || strstr(o.r.error, "127.0.0.1:1") != NULL, 1);
	set_resolver(false, 0, "127.0.0.1");
	done_with(&o);
}

static void remember(const char *host, const char *address)
{
	struct lookup *l = resolve_begin(host, 0);

	resolve_note(l, address, true);
	wait_answer(l);
	resolve_end(l);
}

/* At once if the resolver cannot tell, after half a second if it is silent; but a name that does not exist any more leads nowhere. */
TEST(the_last_good_address_serves_while_the_resolver_cannot_tell, setup)
{
	struct opening o;

	remember("good.example", "127.0.0.9");
	target_of(&o, "redis://good.example:1");
	set_resolver(true, EAI_AGAIN, NULL);
	assert_int_equal(redis_open(&o.r, INT64_C(1) << 40), 0);
	assert_int_equal(redis_pump(&o.r, (INT64_C(1) << 40) + 499), 0);
	assert_true(redis_resolves(&o.r));
	assert_int_equal(o.r.deadline_ms, (INT64_C(1) << 40) + 500);
	redis_pump(&o.r, (INT64_C(1) << 40) + 500);
	assert_false(redis_resolves(&o.r));
	assert_string_equal(o.r.numeric, "127.0.0.9");
	redis_close(&o.r, NULL);
	set_resolver(false, EAI_NONAME, NULL);
	assert_int_equal(ask("good.example", o.r.numeric, &(bool){ false }), -1);
	assert_int_equal(redis_connect(&o.r, 60000, NULL), -1);
	assert_non_null(strstr(o.r.error, "not known"));
	done_with(&o);
}

/* Another process of the supervisor knew the address, and another name takes its place before it is tried: the opening sleeps on. */
TEST(an_opening_whose_shared_address_is_gone_waits_for_the_resolver, setup)
{
	const size_t size = sizeof(struct resolve_shared);
	struct resolve_shared *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct opening o;
	pid_t child;

	assert_ptr_not_equal(memory, MAP_FAILED);
	resolve_share(memory);
	child = fork();
	if (child == 0) {
		resolve_note(resolve_begin("gone.example", 0), "127.0.0.9", true);
		_exit(0);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	set_resolver(true, 0, "127.0.0.1");
	target_of(&o, "redis://gone.example:1");
	assert_int_equal(redis_open(&o.r, 1000), 0);
	assert_int_equal(o.r.deadline_ms, 1500);
	memset(memory, 0, size);
	assert_int_equal(redis_pump(&o.r, 1500), 0);
	assert_true(redis_resolves(&o.r));
	assert_int_equal(o.r.deadline_ms, o.r.open_by_ms);
	set_resolver(false, 0, "127.0.0.1");
	done_with(&o);
	resolve_share(NULL);
	munmap(memory, size);
}

UNIT_MAIN(NULL, NULL)
