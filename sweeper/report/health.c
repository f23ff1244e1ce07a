/*
 * Judges the health of the queues that this sweeper leads. Figures become levels by health_rule.c. The levels become a
 * report in Redis (health_document.c), and a line in the log when they change. Once an interval the reports of all
 * queues and hosts are added up, and stale ones are removed.
 */
#include "sweeper/report/health.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/rescue/rescue.h"
#include "sweeper/report/gauge.h"
#include "sweeper/report/metrics.h"
#include "sweeper/report/outcomes.h"
#include "sweeper/dead_letters/dead_letters.h"
#include "sweeper/core/core.h"

#define AGAIN_MS 1000		/* a queue whose state changes all the time is not judged more often */
/* a queue that is not healthy is judged so often, so that its recovery is seen within about a minute */
#define SICK_MS 30000
/* workers need so long to reconnect after an outage, since each has a back-off of its own */
#define PASSING_MS 10000

static void read_slots(struct sweeper *s, int64_t now_ms)
{
	(void)now_ms;
	holds_read_slots(s->child->board, task_own(s, &health_task));
}

const struct hold_slots *health_slots(const struct sweeper *s)
{
	return task_own(s, &health_task);
}

/* ---- one queue ---- */

/* For how long a hold is no reason yet. */
static int64_t patience_ms(const struct sweeper *s, const struct sweeper_queue *q, const struct judged *judged)
{
	if (holds_is_transient(judged))
		return PASSING_MS;
	return holds_table[judged->hold].patience == PATIENCE_OF_A_PAUSE ? gauge_thresholds(s, q)->paused_max_ms : 0;
}

/* Judges the queue in each turn, and remembers since when each hold applies. */
static void note_holds(const struct sweeper *s, const struct sweeper_queue *q, int64_t now_ms)
{
	struct health_holds *h = &health_of(q)->holds;
	struct judged all[HOLDS];
	size_t n = q->board == NULL ? 0 : holds_list(s->child->board, q->board, health_slots(s), all);

	memset(h->now, 0, sizeof(h->now));
	h->worst = (struct judged){0};
	if (n > 0)
		h->worst = all[0];
	for (size_t i = 0; i < n; i++)
		h->now[all[i].hold] = all[i];
	for (int i = 0; i < HOLDS; i++) {
		if (h->now[i].reason == NULL)
			h->since_ms[i] = 0;
		else if (h->since_ms[i] == 0)
			h->since_ms[i] = now_ms;
		h->counts[i] = h->now[i].reason != NULL && now_ms - h->since_ms[i] >= patience_ms(s, q, &h->now[i]);
	}
}

static void log_change(const struct sweeper *s, const struct sweeper_queue *q, enum queue_health_level before)
{
	static const enum log_level levels[QUEUE_HEALTH_LEVELS] = {
		[QUEUE_HEALTHY] = LOG_LEVEL_INFO, [QUEUE_DEGRADED] = LOG_LEVEL_WARNING,
		[QUEUE_UNHEALTHY] = LOG_LEVEL_ERROR,
	};
	enum health_code list[HEALTH_CODES];
	size_t n = health_codes_list(health_of(q), list);
	struct buffer why = {0};
	char text[HEALTH_TEXT_SIZE];

	for (size_t i = 0; i < n; i++)
		buffer_format(&why, "%s%s", i > 0 ? "; " : "", health_codes_text(s, q, list[i], text));
	log_event(levels[health_of(q)->status], "health_changed", log_str("queue", q->keys.name),
	    log_str("status", queue_health_names[health_of(q)->status]), log_str("before", queue_health_names[before]),
	    log_str("reason", why.data));
	buffer_free(&why);
}

/*
 * Continues with the levels of an earlier report: a bad level stays until the figure is better for long enough,
 * whichever sweeper judges it.
 */
static void resume_from(const struct sweeper_queue *q, const struct queue_health *last)
{
	struct health *h = health_of(q);
	const json_t *reasons = json_object_get(last->document, "reasons"), *reason;
	const char *code, *status;
	size_t i;

	json_array_foreach(reasons, i, reason) {
		if (json_unpack((json_t *)(uintptr_t)reason, "{s:s, s:s}", "code", &code, "status", &status) == -1)
			continue;
		for (int c = 0; c < HEALTH_CODES; c++)
			if (holds_code_name((enum health_code)c) != NULL &&
			    strcmp(code, holds_code_name((enum health_code)c)) == 0 &&
			    queue_health_level_of(status) > QUEUE_HEALTHY)
				h->checks[c].level = (enum queue_health_level)queue_health_level_of(status);
	}
	h->status = health_rule_worst(h->checks, nitems(h->checks));
	if ((int)h->status == last->level)
		h->since_ms = json_integer_value(json_object_get(last->document, "since_ms"));
}

/* However long ago: a report is dropped while no supervisor judges the queue. */
static void resume_notified(struct health *h, const struct redis_reply *reply)
{
	int notified = reply->type == REDIS_STRING ? queue_health_level_of(reply->str) : -1;

	if (notified >= QUEUE_HEALTHY)
		h->notified = (enum queue_health_level)notified;
}

/* This sweeper has not judged the queue in this term: another one may have reported it. */
static void recall_report(struct sweeper *s, struct sweeper_queue *q)
{
	struct queue_health last;
	struct redis_reply reply, told;
	bool is_report;

	queue_health_read_one(&s->redis, q->keys.name);
	queue_health_told(&s->redis, &q->keys);
	is_report = connection_answer(s, &reply) == 0 && reply.type == REDIS_STRING &&
	    queue_health_parse(&last, reply.str, reply.len) == 0;
	if (s->redis.state != REDIS_CLOSED && connection_answer(s, &told) == 0)
		resume_notified(health_of(q), &told);
	if (s->redis.state != REDIS_CLOSED)
		health_of(q)->term = lead_term(q);	/* else the next look asks again */
	if (!is_report)
		return;
	if (strcmp(last.queue, q->keys.name) == 0 && !queue_health_is_stale(&last, gauge_of(q)->at_ms))
		resume_from(q, &last);
	queue_health_free(&last);
}

static void judge_queue(struct sweeper *s, struct sweeper_queue *q)
{
	struct health *h = health_of(q);
	enum queue_health_level before;

	if (h->term != lead_term(q))
		recall_report(s, q);
	before = h->status;
	note_holds(s, q, clock_monotonic_ms());
	health_codes_measure(s, q, h->figures);
	for (int i = 0; i < HEALTH_CODES; i++)
		health_rule_look(&h->checks[i], h->figures[i].value, &h->figures[i].limit);
	h->status = health_rule_worst(h->checks, nitems(h->checks));
	if (h->status != before || h->since_ms == 0)
		h->since_ms = gauge_of(q)->at_ms;
	if (h->status != before)
		log_change(s, q, before);
}

static int write_report(struct sweeper *s, const struct sweeper_queue *q)
{
	char *document = health_document(s, q);
	struct redis_reply reply;
	int rc = 0;

	queue_health_write(&s->redis, q->keys.name, document, s->conf->health.interval_ms);
	for (int i = 0; i < 2; i++)
		if (connection_answer(s, &reply) == -1)
			rc = -1;
	free(document);
	return rc;
}

int health_notified(struct sweeper *s, struct sweeper_queue *q, enum queue_health_level status)
{
	struct redis_reply reply;
	int rc;

	health_of(q)->notified = status;
	queue_health_note_told(&s->redis, &q->keys, status);
	rc = connection_answer(s, &reply);
	return write_report(s, q) == -1 ? -1 : rc;
}

static struct health_news news_of(const struct sweeper *s, const struct sweeper_queue *q, int64_t now_ms)
{
	const struct health_holds *h = &health_of(q)->holds;
	struct health_news news = {0};

	if (q->board == NULL)
		return news;
	note_holds(s, q, now_ms);
	for (int i = 0; i < HOLDS; i++) {
		news.counting |= (uint64_t)h->counts[i] << i;
		news.error |= h->counts[i] ? h->now[i].error : 0;
	}
	news.state = h->worst.hold;
	news.also = h->worst.also;
	news.breaker_shut = h->now[HOLD_BREAKER].shut;
	news.understaffed = (uintptr_t)holds_understaffed(q->board, health_slots(s), s->child->board);
	news.gate = atomic_load(&q->board->sweeper.gate);
	news.undecided = atomic_load(&q->board->sweeper.undecided);
	news.error_text = atomic_load(&q->board->sweeper.why.turn);
	news.breaker_cause = h->counts[HOLD_BREAKER] ? atomic_load(&q->board->workers.breaker.cause) : 0;
	news.archive_fails = archiver_fails(q);
	news.bounds_exceeded = bounds_are_exceeded(q);
	news.leftovers = atomic_load(&s->child->board->sweeper.leftovers) > 0;
	news.reload_failed = atomic_load(&s->child->board->master.reload_failed) > 0;
	news.aside = aside_of(q)->n > 0;
	news.not_ready = atomic_load(&q->board->master.not_ready);
	news.not_ready_why = news.not_ready != NOT_READY_NONE ? atomic_load(&q->board->master.not_ready_why.turn) : 0;
	return news;
}

/* True: the pause that the last look saw has passed its limit since. Another pause changes the gate. */
static bool pause_is_too_long(const struct sweeper *s, const struct sweeper_queue *q, int64_t now_ms)
{
	const struct health *h = health_of(q);
	int64_t limit = gauge_thresholds(s, q)->paused_max_ms, then = h->figures[HEALTH_PAUSED].value;

	return then > 0 && then <= limit && then + now_ms - h->judged_ms > limit;
}

/* True: something happened that the next look must not wait for. */
static bool has_news(const struct sweeper *s, const struct sweeper_queue *q, int64_t now_ms)
{
	const struct health_news now = news_of(s, q, now_ms);

	return memcmp(&now, &health_of(q)->seen, sizeof(now)) != 0 || outcomes_alarm(s, q) ||
	    pause_is_too_long(s, q, now_ms);
}

bool health_is_due(const struct sweeper *s, const struct sweeper_queue *q, int64_t now_ms)
{
	return s->conf->health.enabled && (now_ms >= health_of(q)->due_ms || has_news(s, q, now_ms));
}

bool health_is_outdated(const struct sweeper *s, const struct sweeper_queue *q, int64_t now_ms)
{
	return s->conf->health.enabled && gauge_of(q)->at_ms > 0 && now_ms - gauge_of(q)->taken_ms >= AGAIN_MS &&
	    health_is_due(s, q, now_ms);
}

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	return s->conf->health.enabled && gauge_of(q)->at_ms > 0 && gauge_of(q)->taken_ms != health_of(q)->looked_ms;
}

static int64_t interval_ms(const struct sweeper *s, const struct health *h)
{
	return h->status != QUEUE_HEALTHY && s->conf->health.interval_ms > SICK_MS ? SICK_MS
	    : s->conf->health.interval_ms;
}

/* Judges a fresh gauge, logs what changed, writes the report to Redis. */
static enum task_end run_health(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	struct health *h = health_of(q);

	(void)budget;
	h->looked_ms = gauge_of(q)->taken_ms;
	if (!gauge_of(q)->judged)
		return TASK_DONE;
	outcomes_judged(q);
	h->judged_ms = now_ms;
	h->seen = news_of(s, q, now_ms);
	judge_queue(s, q);
	h->due_ms = gauge_of(q)->taken_ms + interval_ms(s, h);	/* then the next look is taken, too */
	return write_report(s, q) == -1 ? TASK_FAILED : TASK_DONE;
}

const struct task health_task = { .name = "health", .budget = 1, .unsealed = true, .leads = true, .wanted = is_wanted,
	.steady = true, .run_queue = run_health,
	.each_turn = read_slots, .own_size = sizeof(struct hold_slots), .state_size = sizeof(struct health) };

/* ---- the sum over all queues ---- */

static void add_report(struct health_sum *sum, const struct queue_health *h, enum queue_health_worth worth)
{
	struct facts f = facts_unknown();

	if (worth == QUEUE_HEALTH_LEFT)
		return;
	if (worth == QUEUE_HEALTH_DOUBTFUL && h->level != QUEUE_UNHEALTHY)
		sum->unknown++;
	else
		sum->queues[h->level]++;
	facts_read(&f, FACT_OF_QUEUE, h->document, 0);
	for (int i = 0; i < FACTS; i++)
		if (facts_table[i].metric == METRIC_STUCK && f.n[i] > 0)
			sum->stuck += f.n[i];
}

/* Keeps the reports that count in *good, and the names of fields that are stale or no report in *stale, new strings:
 * two new arrays. */
static void sort_reports(const struct redis_reply *reply, int64_t server_ms, struct queue_health **good, size_t *ngood,
    char ***stale, size_t *nstale)
{
	*good = alloc_zero(reply->n / 2 + 1, sizeof(**good));
	*stale = alloc_zero(reply->n / 2 + 1, sizeof(**stale));
	*ngood = *nstale = 0;
	for (size_t i = 0; i + 1 < reply->n; i += 2) {
		struct redis_reply name = redis_element(reply, i), text = redis_element(reply, i + 1);
		struct queue_health *h = &(*good)[*ngood];
		bool is_report = queue_health_parse(h, text.str, text.len) == 0;

		if (is_report && !queue_health_is_stale(h, server_ms)) {
			++*ngood;
			continue;
		}
		if (is_report)
			queue_health_free(h);
		if (strlen(name.str) == name.len)
			(*stale)[(*nstale)++] = alloc_string(name.str);
	}
}

/* Without the answer of a node its queues are not known. Frees the reports. */
static void add_up(struct sweeper *s, struct health_sum *sum, struct queue_health *reports, size_t n, int64_t server_ms)
{
	json_t *nodes = queue_health_ask_nodes(&s->redis, reports, n), *node;
	struct redis_reply reply;
	const char *name;

	json_object_foreach(nodes, name, node)
		if (s->redis.state != REDIS_CLOSED && connection_answer(s, &reply) == 0 &&
		    (node = queue_node_parse(&reply, server_ms)) != NULL)
			json_object_set_new(nodes, name, node);
	for (size_t i = 0; i < n; i++) {
		add_report(sum, &reports[i],
		    queue_health_worth(&reports[i], queue_health_node(&reports[i], nodes), server_ms));
		queue_health_free(&reports[i]);
	}
	json_decref(nodes);
	free(reports);
}

static void drop_stale(struct sweeper *s, char **names, size_t n)
{
	struct redis_reply reply;

	for (size_t i = 0; i < n; i++)
		queue_health_drop(&s->redis, names[i]);
	for (size_t i = 0; i < n; i++) {
		if (s->redis.state != REDIS_CLOSED)
			connection_answer(s, &reply);
		free(names[i]);
	}
}

const struct health_sum *health_sum_of(const struct sweeper *s)
{
	return task_own(s, &health_sum_task);
}

/* Once an interval: adds up all reports, logs the sums, and removes stale reports. */
static bool run_health_sum(struct sweeper *s, int budget, int64_t now_ms)
{
	struct health_sum *sum = task_own(s, &health_sum_task);
	struct age_clock clock;
	struct queue_health *reports;
	struct redis_reply reply;
	size_t n, nstale;
	char **stale;

	(void)budget;
	if (!s->conf->health.enabled || metrics_own(s)->looks == 0 || now_ms < sum->due_ms ||
	    !server_clock_age(&s->clock, clock_boottime_ms(), &clock))
		return false;
	*sum = (struct health_sum){ .due_ms = now_ms + s->conf->health.interval_ms };
	queue_health_read(&s->redis);
	if (connection_answer(s, &reply) == -1 || (reply.n > 0 && !redis_is_strings(&reply)))
		return false;		/* the write has logged the error */
	sort_reports(&reply, clock.now_ms, &reports, &n, &stale, &nstale);
	add_up(s, sum, reports, n, clock.now_ms);
	drop_stale(s, stale, nstale);
	free(stale);
	sum->known = true;
	log_info("health", log_int("healthy", sum->queues[QUEUE_HEALTHY]),
	    log_int("degraded", sum->queues[QUEUE_DEGRADED]),
	    log_int("unhealthy", sum->queues[QUEUE_UNHEALTHY]), log_int("unknown", sum->unknown),
	    log_int("stuck", sum->stuck));
	return false;
}

const struct task health_sum_task = { .name = "health_sum", .budget = 1, .unsealed = true, .run = run_health_sum,
    .own_size = sizeof(struct health_sum) };
