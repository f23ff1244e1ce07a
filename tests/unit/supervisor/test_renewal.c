/* links: tests/unit/supervisor/master_fixture.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write */
/* When the workers of a queue whose handler says READY are replaced. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "common/handler/handler.h"
#include "tests/unit/supervisor/master_fixture.h"
#include "tests/unit/unit.h"

#define READY_CONF \
	"supervisor = { node = \"n\"; }; queues = ( { name = \"mail\"; handler = [\"/bin/true\"]; workers = 2; " \
	"mode = \"persistent\"; ready = true; start_timeout = \"5s\"; } );"

static const struct conf_queue *conf;

static const struct process *worker(int index, enum process_state state)
{
	for (const struct process *p = NULL; (p = processes_next(&m.processes, p, PROCESS_WORKER)) != NULL;)
		if (p->state == state && p->role.index == index && p->role.queue == MAIL)
			return p;
	return NULL;
}

static struct slot *slot_of(const struct process *p)
{
	return &m.board->slots[processes_slot(&m.processes, p)];
}

/* The last start of its handler is decided so; READY: the process goes on. */
static void load(const struct process *p, enum slot_load to)
{
	atomic_store(&slot_of(p)->load, to);
	atomic_store(&slot_of(p)->ready, to == SLOT_LOADED);
}

/* Its worker starts a process of the handler of this generation. */
static void start(const struct process *p, uint32_t generation, int64_t now_ms)
{
	atomic_store(&slot_of(p)->ready, 0);
	atomic_store(&slot_of(p)->loading, 1);
	atomic_store(&slot_of(p)->handler_generation, generation);
	atomic_store(&slot_of(p)->handler_started_ms, now_ms);
}

static enum order order_of(const struct process *p)
{
	return (enum order)atomic_load(&m.board->master.orders[processes_slot(&m.processes, p)]);
}

static const struct queue_workers *mail(void)
{
	return &m.queues.items[MAIL];
}

/* Two workers whose handlers are ready. */
static int setup(void **state)
{
	master_setup(state);
	conf = master_load(READY_CONF)->queues[0];
	queues_keep(&m.queues, MAIL, conf);
	staffing_step(&m, 0);
	load(worker(0, PROCESS_SERVING), SLOT_LOADED);
	load(worker(1, PROCESS_SERVING), SLOT_LOADED);
	return 0;
}

/* A restart, whose first successor loads. */
static const struct process *restart(int64_t now_ms)
{
	queues_recycle(&m.queues, MAIL, now_ms);
	staffing_step(&m, now_ms);
	assert_non_null(worker(0, PROCESS_LOADING));
	load(worker(0, PROCESS_LOADING), SLOT_UNLOADED);
	start(worker(0, PROCESS_LOADING), mail()->handler_generation, now_ms);
	return worker(0, PROCESS_LOADING);
}

static uint32_t not_ready(void)
{
	return atomic_load(&m.board->queues[MAIL].master.not_ready);
}

static uint32_t generation_that_works(void)
{
	return atomic_load(&m.board->queues[MAIL].master.handler_generation);
}

TEST(old_workers_serve_until_their_successors_are_ready, setup, master_teardown)
{
	const struct process *successor = restart(1000);
	int first = processes_slot(&m.processes, worker(0, PROCESS_SERVING));

	assert_int_equal(mail()->serving, 2);
	assert_int_equal(renewal_outdated(&m.queues, MAIL), 2);
	assert_null(worker(1, PROCESS_LOADING));
	assert_int_equal(generation_that_works(), 0);
	assert_int_equal(staffing_step(&m, 2000), 2100);	/* looks again soon */
	assert_int_equal(order_of(&m.processes.items[first]), ORDER_RUN);
	load(successor, SLOT_LOADED);
	staffing_step(&m, 3000);
	assert_int_equal(successor->state, PROCESS_SERVING);
	assert_int_equal(m.processes.items[first].state, PROCESS_LEAVING);
	assert_int_equal(order_of(&m.processes.items[first]), ORDER_FINISH);
	assert_int_equal(generation_that_works(), 1);
	assert_non_null(worker(1, PROCESS_LOADING));		/* then the next one */
	load(worker(1, PROCESS_LOADING), SLOT_LOADED);
	staffing_step(&m, 4000);
	assert_int_equal(renewal_outdated(&m.queues, MAIL), 0);
	assert_false(renewal_is_under_way(&m.queues, MAIL));
}

TEST(a_handler_that_does_not_load_is_tried_once, setup, master_teardown)
{
	const struct process *successor = restart(1000);
	struct slot *s = &m.board->slots[processes_slot(&m.processes, successor)];
	size_t forks = master_forks.n;

	slot_note_failure(s, "no module PIL", 13, 1500);
	atomic_store(&s->load_cause, handler_cause_unready(false, 1, 0));
	load(successor, SLOT_NOT_LOADED);
	staffing_step(&m, 2000);
	assert_int_equal(successor->state, PROCESS_LEAVING);
	assert_int_equal(order_of(successor), ORDER_FINISH);
	assert_logged("handler_not_ready", "with exit status 1: no module PIL");
	assert_true(mail()->not_ready);
	assert_int_equal(not_ready(), NOT_READY_NEW);
	staffing_step(&m, 60000);
	assert_int_equal(master_forks.n, forks);
	assert_int_equal(mail()->serving, 2);
	assert_int_equal(order_of(worker(0, PROCESS_SERVING)), ORDER_RUN);
	assert_int_equal(generation_that_works(), 0);		/* what the old ones say about their handler counts */
}

TEST(a_successor_that_dies_is_not_started_again, setup, master_teardown)
{
	const struct process *successor = restart(1000);
	size_t forks = master_forks.n;

	master_end_worker(processes_slot(&m.processes, successor), false, 2000);
	staffing_step(&m, 3000);
	assert_true(mail()->not_ready);
	assert_logged("handler_not_ready", "died");
	assert_int_equal(master_forks.n, forks);
}

TEST(a_successor_whose_handler_does_not_load_yet_proves_nothing, setup, master_teardown)
{
	const struct process *successor = restart(1000);

	atomic_store(&slot_of(successor)->loading, 0);
	staffing_step(&m, 3600000);		/* Redis is away */
	assert_int_equal(successor->state, PROCESS_LOADING);
	assert_false(mail()->not_ready);
	master_end_worker(processes_slot(&m.processes, successor), true, 3600000);
	staffing_step(&m, 3600000);
	assert_false(mail()->not_ready);
	assert_null(worker(0, PROCESS_LOADING));		/* after a pause */
	staffing_step(&m, 3601000);
	assert_non_null(worker(0, PROCESS_LOADING));
	assert_int_equal(mail()->serving, 2);
}

TEST(a_fork_that_fails_refuses_nothing, setup, master_teardown)
{
	master_forks.error = ENOMEM;
	queues_recycle(&m.queues, MAIL, 1000);
	staffing_step(&m, 1000);
	assert_int_not_equal(master_forks.failed, 0);
	master_forks.error = 0;
	staffing_step(&m, 3600000);
	assert_non_null(worker(0, PROCESS_LOADING));
	assert_false(mail()->not_ready);
}

TEST(a_successor_takes_over_at_once_from_a_worker_that_died, setup, master_teardown)
{
	const struct process *successor = restart(1000);
	size_t forks = master_forks.n;

	master_end_worker(processes_slot(&m.processes, worker(0, PROCESS_SERVING)), true, 1500);
	staffing_step(&m, 2000);
	assert_int_equal(successor->state, PROCESS_SERVING);
	assert_int_equal(mail()->serving, 2);
	assert_true(master_forks.n <= forks + 1);		/* mail/1 has a successor, mail/0 no third worker */
	assert_null(worker(0, PROCESS_LOADING));
	assert_int_equal(totals_of(&m.queues, MAIL).restarts, 1);
	assert_int_equal(mail()->unreplaced, 0);
}

TEST(a_worker_whose_handler_loads_again_is_replaced_at_once, setup, master_teardown)
{
	const struct process *successor = restart(1000);
	int old = processes_slot(&m.processes, worker(0, PROCESS_SERVING));

	start(worker(0, PROCESS_SERVING), 0, 1500);
	staffing_step(&m, 2000);
	assert_int_equal(successor->state, PROCESS_SERVING);
	assert_int_equal(m.processes.items[old].state, PROCESS_LEAVING);
	assert_int_equal(totals_of(&m.queues, MAIL).restarts, 0);
}

TEST(a_second_restart_ends_the_load_of_the_first, setup, master_teardown)
{
	const struct process *first = restart(1000);
	int slot = processes_slot(&m.processes, first);

	queues_recycle(&m.queues, MAIL, 2000);
	staffing_step(&m, 2000);
	assert_int_equal(m.processes.items[slot].state, PROCESS_LEAVING);
	assert_int_equal(order_of(&m.processes.items[slot]), ORDER_FINISH);
	assert_null(worker(0, PROCESS_LOADING));		/* a third one waits */
	assert_int_equal(worker(1, PROCESS_LOADING)->role.generation, 2);
	load(worker(1, PROCESS_LOADING), SLOT_LOADED);
	staffing_step(&m, 3000);
	assert_null(worker(0, PROCESS_LOADING));
	assert_string_equal(renewal_waits_for(&m.queues, MAIL), "the end of a worker that leaves");
	assert_int_equal(staffing_step(&m, 3500), INT64_MAX);	/* nothing but the end of that one wakes the master */
	master_end_worker(slot, false, 4000);
	staffing_step(&m, 4000);
	assert_int_equal(worker(0, PROCESS_LOADING)->role.generation, 2);
	assert_false(mail()->not_ready);
}

TEST(workers_that_do_not_work_are_replaced_at_once, setup, master_teardown)
{
	load(worker(0, PROCESS_SERVING), SLOT_NOT_LOADED);
	queues_recycle(&m.queues, MAIL, 1000);
	renewal_step(&m.queues, MAIL, 1000);
	assert_non_null(worker(0, PROCESS_LEAVING));
	assert_null(worker(1, PROCESS_LEAVING));
	atomic_store(&m.board->queues[MAIL].workers.breaker.step, 1);
	staffing_step(&m, 2000);
	assert_non_null(worker(1, PROCESS_LEAVING));
	assert_int_equal(mail()->serving, 2);
	assert_int_equal(generation_that_works(), 1);
	assert_int_equal(atomic_load(&m.board->queues[MAIL].workers.breaker.step), 0);
}

TEST(a_handler_without_ready_is_replaced_as_ever, setup, master_teardown)
{
	queues_keep(&m.queues, MAIL, m.config.conf->queues[MAIL]);
	queues_recycle(&m.queues, MAIL, 1000);
	assert_int_equal(mail()->leaving, 2);
	assert_int_equal(generation_that_works(), 1);
}

TEST(a_successor_of_a_number_that_is_not_wanted_any_more_leaves, setup, master_teardown)
{
	const struct process *successor = restart(1000);

	queues_scale(&m.queues, MAIL, 0);
	staffing_step(&m, 2000);
	assert_int_equal(successor->state, PROCESS_LEAVING);
	assert_int_equal(mail()->serving, 0);
}

TEST(a_queue_that_leaves_takes_its_successor_with_it, setup, master_teardown)
{
	const struct process *successor = restart(1000);

	queues_leave(&m.queues, MAIL, 0, 2000);
	assert_int_equal(successor->state, PROCESS_LEAVING);
	assert_int_equal(mail()->leaving, 3);
}

TEST(a_handler_that_only_one_worker_can_load_is_not_tried_again, setup, master_teardown)
{
	const struct process *successor = restart(1000);
	size_t forks;

	load(successor, SLOT_LOADED);
	staffing_step(&m, 2000);
	start(worker(1, PROCESS_LOADING), 1, 2000);
	load(worker(1, PROCESS_LOADING), SLOT_NOT_LOADED);
	staffing_step(&m, 3000);
	assert_true(mail()->not_ready);
	forks = master_forks.n;
	master_end_worker(processes_slot(&m.processes, worker(1, PROCESS_LEAVING)), true, 3500);
	for (int64_t now_ms = 4000; now_ms < 60000; now_ms += 1000)
		staffing_step(&m, now_ms);
	assert_int_equal(master_forks.n, forks);
	assert_true(mail()->not_ready);
	assert_int_equal(renewal_outdated(&m.queues, MAIL), 1);
	assert_int_equal(generation_that_works(), 1);
}

TEST(a_worker_that_loads_the_handler_all_the_same_proves_it, setup, master_teardown)
{
	const struct process *successor = restart(1000);

	load(successor, SLOT_NOT_LOADED);
	staffing_step(&m, 2000);
	master_end_worker(processes_slot(&m.processes, worker(1, PROCESS_SERVING)), true, 3000);
	staffing_step(&m, 100000);		/* in place of the dead one */
	assert_int_equal(worker(1, PROCESS_SERVING)->role.generation, 1);
	assert_true(mail()->not_ready);
	start(worker(1, PROCESS_SERVING), 1, 100000);
	load(worker(1, PROCESS_SERVING), SLOT_LOADED);
	staffing_step(&m, 110000);
	assert_false(mail()->not_ready);
	assert_int_equal(generation_that_works(), 1);
}

/* Both old workers serve, and the new handler was not ready. */
static void be_not_ready(void)
{
	load(restart(1000), SLOT_NOT_LOADED);
	staffing_step(&m, 2000);
	assert_true(mail()->not_ready);
	assert_int_equal(renewal_outdated(&m.queues, MAIL), 2);
}

TEST(an_old_worker_that_starts_its_handler_again_has_the_newest_one, setup, master_teardown)
{
	be_not_ready();
	start(worker(0, PROCESS_SERVING), 1, 3000);
	staffing_step(&m, 3000);
	assert_int_equal(renewal_outdated(&m.queues, MAIL), 1);
	assert_true(mail()->not_ready);				/* the other one goes on with the old handler */
	assert_false(renewal_is_loaded(&m.queues, MAIL));
	assert_int_equal(generation_that_works(), 0);
	load(worker(0, PROCESS_SERVING), SLOT_LOADED);
	staffing_step(&m, 4000);
	assert_false(mail()->not_ready);				/* the file was corrected: the other one is replaced, too */
	assert_int_equal(generation_that_works(), 1);
	assert_non_null(worker(1, PROCESS_LOADING));
	assert_null(worker(0, PROCESS_LOADING));
	assert_int_equal(order_of(worker(0, PROCESS_SERVING)), ORDER_RUN);
}

TEST(what_is_known_against_the_new_one_ends_with_the_last_old_handler, setup, master_teardown)
{
	be_not_ready();
	start(worker(0, PROCESS_SERVING), 1, 3000);
	start(worker(1, PROCESS_SERVING), 1, 3000);
	staffing_step(&m, 3000);
	assert_int_equal(renewal_outdated(&m.queues, MAIL), 0);
	assert_false(mail()->not_ready);
	assert_int_equal(not_ready(), NOT_READY_ALL);
	assert_int_equal(generation_that_works(), 1);		/* now the breaker is about the newest one */
	assert_null(worker(0, PROCESS_LOADING));		/* a successor could do no more */
	atomic_store(&m.board->queues[MAIL].workers.breaker.step, 1);
	staffing_step(&m, 4000);
	assert_int_equal(not_ready(), NOT_READY_NONE);		/* the breaker has the newer failure */
}

TEST(what_failed_is_known_until_a_handler_is_ready, setup, master_teardown)
{
	struct queue_breaker *breaker = &m.board->queues[MAIL].workers.breaker;

	load(worker(0, PROCESS_SERVING), SLOT_NOT_LOADED);
	load(worker(1, PROCESS_SERVING), SLOT_NOT_LOADED);
	slot_note_failure(slot_of(worker(1, PROCESS_SERVING)), "no module PIL", 13, 500);
	breaker->cause = handler_cause_unready(false, 1, 0);
	breaker->step = 1;
	for (int64_t now_ms = 1000; now_ms < 3000; now_ms += 1000) {
		queues_recycle(&m.queues, MAIL, now_ms);
		staffing_step(&m, now_ms);
		assert_int_equal(not_ready(), NOT_READY_ALL);
		assert_string_equal(slot_text_read(&m.board->queues[MAIL].master.not_ready_why).text,
		    "its handler ended before it was ready, with exit status 1: no module PIL");
		assert_false(mail()->not_ready);		/* nothing is known against this one */
		for (int i = 0; i < 2; i++) {
			load(worker(i, PROCESS_SERVING), SLOT_UNLOADED);
			master_end_worker(processes_slot(&m.processes, worker(i, PROCESS_LEAVING)), false, now_ms);
		}
	}
	load(worker(0, PROCESS_SERVING), SLOT_LOADED);
	renewal_step(&m.queues, MAIL, 4000);
	assert_int_equal(not_ready(), NOT_READY_NONE);
}

/* Its handler is the old one again, so no process of it says anything about the new one. */
TEST(a_worker_with_an_older_configuration_starts_an_older_handler, setup, master_teardown)
{
	struct queue_master *words = &m.board->queues[MAIL].master;

	queues_recycle(&m.queues, MAIL, 500);
	assert_int_equal(atomic_load(&words->newest_generation), 1);
	assert_int_equal(atomic_load(&words->conf_generation), 0);
	queues_note_conf(&m.queues, MAIL);
	queues_recycle(&m.queues, MAIL, 600);
	assert_int_equal(atomic_load(&words->newest_generation), 2);
	assert_int_equal(atomic_load(&words->conf_generation), 2);
}

TEST(a_handler_that_has_ended_protects_nothing, setup, master_teardown)
{
	int old = processes_slot(&m.processes, worker(0, PROCESS_SERVING));

	atomic_store(&m.board->slots[old].ready, 0);		/* its last start was READY, and the next one waits */
	assert_int_equal(atomic_load(&m.board->slots[old].load), SLOT_LOADED);
	queues_recycle(&m.queues, MAIL, 1000);
	renewal_step(&m.queues, MAIL, 1000);
	assert_int_equal(m.processes.items[old].state, PROCESS_LEAVING);
	assert_non_null(worker(1, PROCESS_SERVING));
}

TEST(a_breaker_that_a_start_opened_does_not_end_the_protection_of_a_ready_handler, setup, master_teardown)
{
	struct queue_breaker *breaker = &m.board->queues[MAIL].workers.breaker;
	int ready = processes_slot(&m.processes, worker(1, PROCESS_SERVING));

	restart(1000);
	atomic_store(&breaker->cause, handler_cause_unready(false, 1, 0));
	atomic_store(&breaker->step, 1);
	staffing_step(&m, 2000);
	assert_int_equal(m.processes.items[ready].state, PROCESS_SERVING);
	assert_int_equal(renewal_outdated(&m.queues, MAIL), 2);
	atomic_store(&breaker->cause, 0);			/* messages failed */
	staffing_step(&m, 3000);
	assert_int_equal(m.processes.items[ready].state, PROCESS_LEAVING);
}

TEST(a_successor_that_has_ended_again_takes_nothing_over, setup, master_teardown)
{
	const struct process *successor = restart(1000);

	atomic_store(&slot_of(successor)->load, SLOT_LOADED);
	staffing_step(&m, 2000);
	assert_int_equal(successor->state, PROCESS_LOADING);
	assert_non_null(worker(0, PROCESS_SERVING));
}

TEST(a_handler_that_no_worker_has_ready_is_awaited_until_it_is_or_fails, setup, master_teardown)
{
	char why[RENEWAL_WHY_SIZE];

	assert_false(renewal_is_awaited(&m.queues, MAIL));
	for (int i = 0; i < 2; i++)
		load(worker(i, PROCESS_SERVING), SLOT_UNLOADED);
	assert_true(renewal_is_awaited(&m.queues, MAIL));
	assert_false(renewal_has_failed(&m.queues, MAIL, why));
	assert_true(renewal_limit_ms(&m.queues, MAIL) > mail()->conf->start_timeout_ms);
	load(worker(1, PROCESS_SERVING), SLOT_NOT_LOADED);
	atomic_store(&slot_of(worker(1, PROCESS_SERVING))->load_cause, handler_cause_unready(false, 1, 0));
	assert_true(renewal_has_failed(&m.queues, MAIL, why));
	assert_string_equal(why, "its handler ended before it was ready, with exit status 1");
	atomic_store(&slot_of(worker(1, PROCESS_SERVING))->loading, 1);		/* it tries again */
	assert_false(renewal_has_failed(&m.queues, MAIL, why));
	load(worker(0, PROCESS_SERVING), SLOT_LOADED);
	assert_false(renewal_is_awaited(&m.queues, MAIL));
	load(worker(0, PROCESS_SERVING), SLOT_UNLOADED);
	queues_scale(&m.queues, MAIL, 0);
	assert_false(renewal_is_awaited(&m.queues, MAIL));			/* no worker will load it */
}

UNIT_MAIN(NULL, NULL)
