/* links: tests/unit/private_redis.c tests/unit/worker/lone_worker.c */
/* ldflags: -Wl,--wrap=clock_boottime_ms -Wl,--wrap=timerfd_create -Wl,--wrap=timerfd_settime */
/* ldflags: -Wl,--wrap=log_write -Wl,--wrap=exit */
/* fence = "kill": when a handler gets SIGTERM and SIGKILL, when none may start any more, and what the master sees of it. */
#include <sys/timerfd.h>

#include <errno.h>
#include <string.h>

#include "common/base/base.h"
#include "tests/unit/unit.h"
#include "tests/unit/worker/lone_worker.h"

/* CLOCK_BOOTTIME, ms. The margin is an eighth of a lease of 30 s. */
#define LEASE_ENDS INT64_C(100000)
#define MASTER_KILLS (LEASE_ENDS - 1875)
#define KILL (LEASE_ENDS - 3750)
#define GRACE INT64_C(2000)
#define TERM (KILL - GRACE)

static int64_t boottime_ms, timer_ms;
static int timer_sets, stopped, killed, logged, timer_error;
static char reason[32];
static jmp_buf exited;

int64_t __wrap_clock_boottime_ms(void);
int __wrap_timerfd_create(int clock, int flags);
int __real_timerfd_create(int clock, int flags);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old);
void __wrap_log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n);
_Noreturn void __wrap_exit(int status);

int64_t __wrap_clock_boottime_ms(void)
{
	return boottime_ms;
}

int __wrap_timerfd_create(int clock, int flags)
{
	assert_int_equal(clock, CLOCK_BOOTTIME);	/* CLOCK_MONOTONIC stands still while the machine sleeps */
	errno = timer_error;
	return timer_error != 0 ? -1 : __real_timerfd_create(clock, flags);
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old)
{
	assert_int_equal(flags, TFD_TIMER_ABSTIME);
	timer_sets++;
	timer_ms = at->it_value.tv_sec * 1000 + at->it_value.tv_nsec / 1000000;
	return __real_timerfd_settime(fd, flags, at, old);
}

void __wrap_log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
	(void)level;
	if (strcmp(event, "handler_fenced") != 0)
		return;
	logged++;
	for (size_t i = 0; i < n; i++)
		if (strcmp(fields[i].key, "reason") == 0)
			strncpy(reason, fields[i].data, sizeof(reason) - 1);
}

void __wrap_exit(int status)
{
	longjmp(exited, status);
}

static void stop(struct worker *w, int64_t now_ms)
{
	(void)w;
	assert_int_equal(now_ms, 7);
	stopped++;
}

static void kill_now(struct worker *w, int64_t now_ms)
{
	(void)w;
	assert_int_equal(now_ms, 7);
	killed++;
}

static const struct runner runner = { .stop = stop, .kill = kill_now };

static int begin(enum conf_fence fence)
{
	boottime_ms = LEASE_ENDS - LONE_LEASE_MS;
	timer_ms = -1;
	timer_sets = stopped = killed = logged = timer_error = 0;
	lone_worker_begin(false);
	lone.queue.fence = fence;
	lone.queue.kill_grace_ms = GRACE;
	lone.w->starter.runner = &runner;
	lone.w->session.lease.until_ms = LEASE_ENDS;
	fence_init(lone.w);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return begin(CONF_FENCE_KILL);
}

static int setup_finish(void **state)
{
	(void)state;
	return begin(CONF_FENCE_FINISH);
}

static int teardown(void **state)
{
	fence_free(lone.w);
	return lone_worker_teardown(state);
}

static void run_message(void)
{
	lone_worker_add(0, "a");
	if (lone.w->trays.tray[0].state == TRAY_EMPTY)
		tray_filled(&lone.w->trays, 0);
	tray_start(&lone.w->trays, AT(0, lone.w->trays.tray[0].n - 1));
}

static void tick_at(int64_t ms)
{
	boottime_ms = ms;
	fence_tick(lone.w, 7);
}

static int64_t shown(void)
{
	return atomic_load(&lone.env->slot->fence_ms);
}

/* ---- */

TEST(without_fence_kill_a_handler_outlives_the_lease, setup_finish, teardown)
{
	struct pollfd p;

	run_message();
	fence_claim_lost(&lone.w->fence);
	fence_announce(lone.w);
	tick_at(LEASE_ENDS + 1);
	assert_true(fence_may_start(lone.w));
	assert_int_equal(stopped + killed + timer_sets, 0);
	assert_int_equal(shown(), 0);
	assert_false(fence_pollfd(lone.w, &p));
}

TEST(without_a_timer_the_worker_exits, setup, teardown)
{
	int status;

	fence_free(lone.w);
	timer_error = EMFILE;
	status = setjmp(exited);
	if (status == 0)
		fence_init(lone.w);
	assert_int_equal(status, 1);
	timer_error = 0;
	fence_init(lone.w);
}

TEST(no_handler_starts_that_would_get_sigterm_at_once, setup, teardown)
{
	boottime_ms = TERM - 1;
	assert_true(fence_may_start(lone.w));
	boottime_ms = TERM;
	assert_false(fence_may_start(lone.w));
	lone.w->session.lease.until_ms++;
	assert_true(fence_may_start(lone.w));
}

/* With a grace as long as the lease no time is left: the configuration refuses it, and here nothing starts. */
TEST(with_a_grace_as_long_as_the_lease_no_handler_starts, setup, teardown)
{
	lone.queue.kill_grace_ms = LONE_LEASE_MS;
	assert_false(fence_may_start(lone.w));
}

TEST(a_handler_gets_sigterm_one_grace_before_sigkill, setup, teardown)
{
	run_message();
	tick_at(TERM - 1);
	assert_int_equal(stopped, 0);
	assert_int_equal(timer_ms, TERM);
	tick_at(TERM);
	assert_int_equal(stopped, 1);
	assert_int_equal(timer_ms, KILL);
	tick_at(KILL - 1);
	assert_int_equal(killed, 0);
	tick_at(KILL);
	assert_int_equal(killed, 1);
	assert_int_equal(timer_ms, 0);
}

/* The machine slept, or the worker stood still: there is no time for SIGTERM. */
TEST(a_handler_that_is_found_too_late_gets_sigkill_at_once, setup, teardown)
{
	run_message();
	tick_at(LEASE_ENDS + 60000);
	assert_int_equal(stopped, 0);
	assert_int_equal(killed, 1);
}

TEST(a_renewal_moves_all_deadlines, setup, teardown)
{
	run_message();
	tick_at(TERM - 1);
	lone.w->session.lease.until_ms += 10000;
	tick_at(TERM);
	assert_int_equal(stopped, 0);
	assert_int_equal(timer_ms, TERM + 10000);
	assert_int_equal(shown(), MASTER_KILLS + 10000);
	tick_at(TERM + 10000);
	assert_int_equal(stopped, 1);
}

TEST(the_timer_is_set_only_when_its_time_changes, setup, teardown)
{
	tick_at(1);
	assert_int_equal(timer_sets, 0);
	run_message();
	for (int i = 0; i < 100; i++)
		tick_at(TERM - 100 + i);
	assert_int_equal(timer_sets, 1);
}

/* Its time has passed already by the clock of the kernel, so it wakes the poll at once. */
TEST(the_timer_wakes_the_poll_until_it_is_disarmed, setup, teardown)
{
	struct pollfd p;

	run_message();
	lone.w->session.lease.until_ms = 3750 + GRACE + 1;
	tick_at(0);
	assert_int_equal(timer_ms, 1);
	assert_true(fence_pollfd(lone.w, &p));
	assert_int_equal(poll(&p, 1, 60000), 1);
	tray_gone(&lone.w->trays, AT(0, 0));
	tick_at(0);
	assert_true(fence_pollfd(lone.w, &p));
	assert_int_equal(poll(&p, 1, 0), 0);
}

TEST(a_lost_claim_kills_at_once_until_nothing_runs, setup, teardown)
{
	run_message();
	fence_claim_lost(&lone.w->fence);
	tick_at(TERM - 10000);
	assert_int_equal(killed, 1);
	assert_int_equal(stopped, 0);
	assert_string_equal(reason, "another took it");
	fence_claims_ended(&lone.w->fence);
	tick_at(TERM - 10000);
	assert_int_equal(killed, 1);
	assert_int_equal(timer_ms, TERM);
}

TEST(each_fence_is_logged_once, setup, teardown)
{
	run_message();
	tick_at(TERM);
	tick_at(TERM + 1);
	tick_at(KILL);
	assert_int_equal(logged, 1);
	assert_string_equal(reason, "its lease runs out");
	tray_gone(&lone.w->trays, AT(0, 0));
	tick_at(KILL);
	run_message();
	tick_at(KILL);
	assert_int_equal(logged, 2);
}

/* The master kills the worker's group if this worker stands still: after the worker would have done it, and before the lease ends. */
TEST(the_master_sees_a_deadline_between_sigkill_and_the_end_of_the_lease, setup, teardown)
{
	run_message();
	tick_at(TERM - 10000);
	assert_int_equal(shown(), MASTER_KILLS);
	assert_in_range(shown(), KILL + 1, LEASE_ENDS - 1);
	tray_gone(&lone.w->trays, AT(0, 0));
	tick_at(TERM - 10000);
	assert_int_equal(shown(), 0);
	assert_int_equal(timer_ms, 0);
}

/* If the worker stood still between the start and its next turn, the master would see no deadline. */
TEST(the_deadline_is_shown_before_the_start, setup, teardown)
{
	fence_announce(lone.w);
	assert_int_equal(shown(), MASTER_KILLS);
}

UNIT_MAIN(NULL, NULL)
