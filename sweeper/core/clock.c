/*
 * Keeps the time of the server, and since when its clock runs evenly: sweeper and workers need both to compute ages.
 * The rule is in common/board/server_clock.c. If a queue needs ages, the sweeper also writes the clock to Redis, so
 * that a restarted supervisor continues with it.
 */
#include "sweeper/core/core.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define LOGGED_EVERY_MS 60000	/* a clock that is slewed would otherwise cause a line at every look */
#define KEEP_EVERY_MS 60000

/* Continues with what the previous sweeper of this master learned. */
void clock_init(struct sweeper *s)
{
	server_clock_read(&s->clock, &s->child->board->sweeper.clock);
}

static void log_step(struct sweeper *s, int64_t step_ms)
{
	int64_t now_ms = clock_monotonic_ms();

	if (s->clock_keeping.logged_ms != 0 && now_ms - s->clock_keeping.logged_ms < LOGGED_EVERY_MS)
		return;
	s->clock_keeping.logged_ms = now_ms;
	log_warning("server_clock_set", log_int("step_ms", step_ms),
	    log_str("advice", "the clock of Redis was set, or this is another server: what waits counts from now"));
}

void clock_learn(struct sweeper *s, int64_t server_ms, int64_t sent_ms)
{
	struct server_time t = { .server_ms = server_ms, .sent_ms = sent_ms, .answered_ms = clock_boottime_ms() };
	int64_t step_ms = server_clock_take(&s->clock, &t);

	if (step_ms != 0) {
		log_step(s, step_ms);
		/* write the text at once: if the clock is set back before a restart, the text must still show the
		 * step */
		s->clock_keeping.at_ms = 0;
	} else if (s->clock_keeping.recalled) {
		log_info("server_clock_restored", log_int("known_ms", server_ms - s->clock.since_ms));
	}
	s->clock_keeping.recalled = false;
	server_clock_publish(&s->clock, &s->child->board->sweeper.clock);
}

/* ---- over a restart ---- */

static bool is_wanted(const struct sweeper *s)
{
	for (size_t i = 0; i < s->conf->nqueues; i++)
		if (conf_queue_ages(s->conf, s->conf->queues[i]))
			return true;
	return false;
}

int clock_recall(struct sweeper *s)
{
	char boot_id[PROCESS_BOOT_ID_SIZE];
	struct redis_reply reply;

	if (s->clock.checked_ms != 0 || !is_wanted(s) || process_boot_id(boot_id) == -1)
		return 0;
	queue_node_clock_read(&s->redis, s->conf->supervisor.node);
	if (connection_answer(s, &reply) == 0 && reply.type == REDIS_STRING)
		s->clock_keeping.recalled = server_clock_recall(&s->clock, boot_id, reply.str, clock_boottime_ms());
	return s->redis.state == REDIS_CLOSED ? -1 : 0;
}

static void keep_clock(struct sweeper *s)
{
	char boot_id[PROCESS_BOOT_ID_SIZE], text[SERVER_CLOCK_TEXT_SIZE];
	struct redis_reply reply;

	if (s->clock.checked_ms == 0 || !is_wanted(s) || !sweeper_is_active(s) ||
	    process_boot_id(boot_id) == -1)
		return;
	server_clock_text(&s->clock, boot_id, text);
	queue_node_clock_write(&s->redis, s->conf->supervisor.node, text);
	connection_answer(s, &reply);		/* refused: then the next supervisor begins without a clock */
}

static bool run_clock(struct sweeper *s, int budget, int64_t now_ms)
{
	(void)budget;
	if (now_ms >= s->clock_keeping.at_ms) {
		s->clock_keeping.at_ms = now_ms + KEEP_EVERY_MS;
		keep_clock(s);
	}
	return false;
}

const struct task clock_task = { .name = "clock", .interval_ms = 1000, .budget = 1, .unsealed = true, .run = run_clock,
    .settle = keep_clock };
