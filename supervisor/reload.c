/*
 * Going over to another configuration: parse, validate, compare, commit. What is equal keeps its processes; any
 * error keeps all of them. How workers are replaced is crew.c's and staff.c's.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/log.h"
#include "supervisor/lock_text.h"
#include "supervisor/master.h"
#include "supervisor/reload.h"
#include "supervisor/staff.h"


void reload_log_report(const struct conf_report *report)
{
	for (size_t i = 0; i < report->n; i++) {
		const struct conf_problem *p = &report->problems[i];

		log_event(p->warning ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR, "config_problem", log_str("reason", p->text));
	}
}

static void add_problem(struct conf_report *report, char *text)
{
	report->problems = alloc_resize(report->problems, report->n + 1, sizeof(*report->problems));
	report->problems[report->n++] = (struct conf_problem){ .warning = false, .text = text };
	report->errors++;
}

static bool differ(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a != b : strcmp(a, b) != 0;
}

static void refuse_change(struct conf_report *report, const char *key, bool changed)
{
	if (changed)
		add_problem(report, alloc_format("%s cannot change while quredisd runs: restart it", key));
}

static void refuse_changes(const struct conf *a, const struct conf *b, struct conf_report *report)
{
	refuse_change(report, "supervisor.lock_file", differ(a->supervisor.lock_file, b->supervisor.lock_file));
	refuse_change(report, "supervisor.control_socket",
	    differ(a->supervisor.control_socket, b->supervisor.control_socket));
	refuse_change(report, "supervisor.node", differ(a->supervisor.node, b->supervisor.node));
	refuse_change(report, "redis.embedded", a->redis.embedded != b->redis.embedded);
	if (a->redis.embedded && b->redis.embedded) {
		refuse_change(report, "redis.dir", differ(a->redis.dir, b->redis.dir));
		refuse_change(report, "redis.server", differ(a->redis.server, b->redis.server));
	}
}

static bool log_differs(const struct conf *a, const struct conf *b)
{
	return differ(a->log.target, b->log.target) || a->log.format != b->log.format || a->log.level != b->log.level;
}

int reload_note_users(struct master *m, const struct conf *conf, char *error, size_t size)
{
	for (size_t i = 0; i < conf->nqueues; i++) {
		const struct conf_run_as *r = &conf->queues[i]->run_as;

		if (r->switch_user && lock_text_add_user(&m->lock, r->uid) == -1) {
			snprintf(error, size, "%s: cannot be written: %s", m->conf->supervisor.lock_file, strerror(errno));
			return -1;
		}
	}
	return 0;
}

static struct conf *load(struct master *m, struct conf_report *report)
{
	struct conf *conf = conf_load(m->conf_path, 0, report);
	char error[PATH_MAX + 256];

	if (conf == NULL)
		return NULL;
	refuse_changes(m->conf, conf, report);
	if (report->errors == 0 && log_differs(m->conf, conf) && log_open(conf->log.target, conf->log.format, conf->log.level) == -1)
		add_problem(report, alloc_format("log.target: %s: %s", conf->log.target, log_open_error()));
	if (report->errors == 0 && reload_note_users(m, conf, error, sizeof(error)) == -1)
		add_problem(report, alloc_string(error));
	if (report->errors == 0)
		return conf;
	conf_free(conf);
	return NULL;
}

static bool same_keys(const struct conf_queue *a, const struct conf_queue *b)
{
	return strcmp(a->ingress, b->ingress) == 0 && strcmp(a->transit, b->transit) == 0 &&
	    strcmp(a->escape, b->escape) == 0;
}

static bool same_server(const struct conf *a, const struct conf *b)
{
	return !differ(a->redis.url, b->redis.url);
}

struct changes {
	bool globals;		/* everybody is replaced */
	int entered, left, changed;
};

/* Returns -1 if there is no room for it. */
static int go_over(struct master *m, const struct conf *new, const struct conf_queue *q, struct changes *d, int64_t now_ms)
{
	struct crew *c = crew_find(m, q->name);

	if (c == NULL) {
		d->entered++;
		return crew_enter(m, q) == NULL ? -1 : 0;
	}
	c->scaled = -1;			/* the file says again how many */
	if (!d->globals && conf_queue_equal(c->conf, q)) {
		c->conf = q;
		return 0;
	}
	d->changed++;
	if (!same_keys(c->conf, q) || !same_server(m->conf, new)) {
		crew_leave(m, c, now_ms);	/* what was recovered there says nothing of here */
		return crew_enter(m, q) == NULL ? -1 : 0;
	}
	crew_recycle(m, c, now_ms);
	c->conf = q;
	return 0;
}

static void commit(struct master *m, struct conf *new, int64_t now_ms)
{
	struct changes d = { .globals = !conf_globals_equal(m->conf, new) };
	int sweeper = staff_sweeper(m);

	for (int i = 0; i < m->ncrews; i++)
		if (m->crews[i].conf != NULL && conf_queue_find(new, m->crews[i].name) == NULL) {
			crew_leave(m, &m->crews[i], now_ms);
			d.left++;
		}
	for (size_t i = 0; i < new->nqueues; i++)
		if (go_over(m, new, new->queues[i], &d, now_ms) == -1)
			log_error("queue_refused", log_str("queue", new->queues[i]->name), log_str("reason", "no room"));
	if (d.globals || d.entered + d.left + d.changed > 0) {
		m->epoch++;
		m->sweeper_policy = (struct policy){0};
		if (sweeper != -1)
			m->procs[sweeper].leaving = true;
	}
	conf_free(m->conf);
	m->conf = new;
	log_info("reload_done", log_int("queues", (int64_t)new->nqueues), log_int("entered", d.entered),
	    log_int("left", d.left), log_int("changed", d.changed));
}

int reload_run(struct master *m, struct conf_report *report, int64_t now_ms)
{
	struct conf *new;

	notify_reloading(&m->notify);
	*report = (struct conf_report){0};
	new = load(m, report);
	reload_log_report(report);
	if (new == NULL)
		log_error("reload_failed", log_int("problems", (int64_t)report->errors),
		    log_str("reason", "the running configuration is kept"));
	else
		commit(m, new, now_ms);
	notify_ready(&m->notify);
	return new == NULL ? -1 : 0;
}

void reload_first(struct master *m)
{
	for (size_t i = 0; i < m->conf->nqueues; i++)
		crew_enter(m, m->conf->queues[i]);
}
