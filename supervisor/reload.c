/*
 * Applies another configuration: parse, validate, compare, commit. Queues that did not change keep their processes, and
 * any error keeps the running configuration. queues.c and staffing.c replace the workers of a queue that changed.
 */
#include "supervisor/reload.h"

#include <sys/stat.h>

#include <err.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/base/base.h"
#include "common/log/log.h"
#include "supervisor/master.h"

#define LOADS_MAX 5

static void log_report(const struct conf_report *report)
{
	for (size_t i = 0; i < report->n; i++) {
		const struct conf_problem *p = &report->problems[i];

		log_event(p->warning ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR, "config_problem",
		    log_str("reason", p->text));
	}
}

/* ---- at the start ---- */

/* The status of the directory of a path; all 0: it cannot be examined. */
static struct stat look_at_directory(const char *path)
{
	char *copy = alloc_string(path);
	struct stat st;

	if (stat(dirname(copy), &st) == -1)
		st = (struct stat){0};
	free(copy);
	return st;
}

/* Loads again if the directory became another one meanwhile, so that no files of two releases are mixed. */
static struct conf *load_one_release(const char *path, struct conf_report *report)
{
	for (int tries = 1;; tries++) {
		struct stat before = look_at_directory(path), after;
		struct conf *conf = conf_load(path, 0, report);

		after = look_at_directory(path);
		if ((before.st_dev == after.st_dev && before.st_ino == after.st_ino) || tries == LOADS_MAX)
			return conf;
		conf_free(conf);
		conf_report_free(report);
	}
}

static int open_log(const struct conf *conf)
{
	if (conf->supervisor.as.switch_user)
		log_owner(conf->supervisor.as.uid, conf->supervisor.as.gid);
	return log_open(conf->log.target, conf->log.format, conf->log.level);
}

int reload_start(struct configuration *c, const struct conf_choice *choice)
{
	char *file = conf_choice_text(choice);
	struct conf_report report;
	int status = EX_CONFIG;

	/* Not resolved: a deploy moves a link in the path, and a reload must follow that. */
	c->path = conf_absolute_path(choice->path);
	c->conf = load_one_release(c->path, &report);
	if (c->conf == NULL) {
		conf_report_print(&report, stderr);
		warnx("the configuration is %s", file);
	} else if (open_log(c->conf) == -1) {
		warnx("log.target %s: %s", c->conf->log.target, log_open_error());
		status = EX_CANTCREAT;
	} else {
		process_hide_memory(!c->conf->supervisor.core);
		log_process("master");
		log_report(&report);
		status = EX_OK;
	}
	conf_report_free(&report);
	free(file);
	return status;
}

void reload_free(struct configuration *c)
{
	conf_free(c->conf);
	free(c->path);
	free(c->failed.reason);
	*c = (struct configuration){0};
}

void reload_first(struct master *m)
{
	for (size_t i = 0; i < m->config.conf->nqueues; i++)
		queues_enter(&m->queues, m->config.conf->queues[i]);
	alloc_fill_holes();
}

/* ---- what cannot change ---- */

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
	refuse_change(report, "supervisor.control_group",
	    differ(a->supervisor.control_group, b->supervisor.control_group));
	refuse_change(report, "supervisor.user", differ(a->supervisor.as.user, b->supervisor.as.user));
	refuse_change(report, "supervisor.node", differ(a->supervisor.node, b->supervisor.node));
	refuse_change(report, "redis.prefix", differ(a->redis.prefix, b->redis.prefix));
	refuse_change(report, "redis.embedded", a->redis.embedded != b->redis.embedded);
	if (a->redis.embedded && b->redis.embedded) {
		refuse_change(report, "redis.dir", differ(a->redis.dir, b->redis.dir));
		refuse_change(report, "redis.server", differ(a->redis.server, b->redis.server));
	}
}

static bool same_list(char *const *a, char *const *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	for (; *a != NULL && *b != NULL; a++, b++)
		if (strcmp(*a, *b) != 0)
			return false;
	return *a == *b;
}

/* Other Sentinels may watch another server under the same name. */
static bool same_server(const struct conf *a, const struct conf *b)
{
	return !differ(a->redis.url, b->redis.url) && !differ(a->redis.master, b->redis.master) &&
	    same_list(a->redis.sentinels, b->redis.sentinels);
}

/* ---- what a file lost by accident, such as a deploy on a full disk ---- */

static void refuse_emptied_files(const struct conf *a, const struct conf *b, struct conf_report *report)
{
	for (size_t i = 0; i < a->nqueues; i++) {
		const char *file = conf_queue_place(a->queues[i])->from;

		if (file != NULL && conf_queue_find(b, a->queues[i]->name) == NULL && conf_file_is_empty(b, file))
			add_problem(report,
			    alloc_format(
			    "%s sets nothing any more, and queue %s is from it: restore it, or remove the file",
			    file, a->queues[i]->name));
	}
}

/* Another server is an intention only if a file, or the environment, names it. */
static void refuse_accidents(const struct conf *a, const struct conf *b, struct conf_report *report)
{
	if (a->nqueues > 0 && b->nqueues == 0)
		add_problem(report, alloc_string("the configuration has no queue any more: restore one, or stop "
		    "quredisd if no queue is wanted"));
	if (!same_server(a, b) && conf_origin(b, "redis.url")->kind == CONF_ORIGIN_DEFAULT)
		add_problem(report,
		    alloc_format(
		    "redis.url is not set any more: restore it, or set it to \"%s\" if that server is wanted",
		    b->redis.url));
	refuse_emptied_files(a, b, report);
}

int reload_note_users(struct master *m, const struct conf *conf, char *error, size_t size)
{
	for (size_t i = 0; i <= conf->nqueues; i++) {
		const struct conf_run_as *r = i == conf->nqueues ? &conf->supervisor.as : &conf->queues[i]->run_as;

		if (r->switch_user && lock_text_add_user(&m->lock, r->uid) == -1) {
			snprintf(error, size, "%s: cannot be written: %s", m->config.conf->supervisor.lock_file,
			    strerror(errno));
			return -1;
		}
	}
	return 0;
}

/* ---- reloading ---- */

static struct conf *load(struct master *m, struct conf_report *report)
{
	struct conf *conf = load_one_release(m->config.path, report);
	const struct conf *old = m->config.conf;
	char error[PATH_MAX + 256];

	if (conf == NULL)
		return NULL;
	refuse_changes(old, conf, report);
	refuse_accidents(old, conf, report);
	if (report->errors == 0 && (differ(old->log.target, conf->log.target) || old->log.format != conf->log.format ||
	    old->log.level != conf->log.level) && open_log(conf) == -1)
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

/* Workers that stay count as having loaded their limits now: of those of several hosts the last ones count. */
static void publish_rate(struct board_queue *b, const struct conf_queue *old, const struct conf_queue *q,
    int64_t loaded_ms)
{
	if (old->rate.n != q->rate.n || old->rate.per_ms != q->rate.per_ms || old->burst != q->burst ||
	    old->max_in_flight != q->max_in_flight)
		atomic_store(&b->master.rate_changed_ms, loaded_ms);
	atomic_store(&b->master.rate_loaded_ms, loaded_ms);
}

struct changes {
	bool globals;		/* every worker is replaced */
	int entered, left, changed;
};

/* One queue of the new configuration. Returns -1 if there is no room for it. */
static int go_over(struct master *m, const struct conf *new, const struct conf_queue *q, struct changes *d,
    int64_t now_ms)
{
	int queue = queues_find(&m->queues, q->name);
	const struct conf_queue *old = queue == -1 ? NULL : m->queues.items[queue].conf;
	bool same, older_files;

	if (old == NULL) {
		d->entered++;
		return queues_enter(&m->queues, q) == -1 ? -1 : 0;
	}
	publish_rate(&m->board->queues[queue], old, q, new->loaded_ms);
	same = !d->globals && conf_queue_equal(old, q);
	older_files = queues_have_older_files(&m->queues, queue, q);
	if (same && !older_files && !renewal_tries_in_vain(&m->queues, queue)) {
		queues_keep(&m->queues, queue, q);
		return 0;
	}
	d->changed++;
	if (!same_keys(old, q) || !same_server(m->config.conf, new)) {
		/* the recovery of the old keys proves nothing about the new ones */
		queues_leave(&m->queues, queue, m->config.epoch, now_ms);
		return queues_enter(&m->queues, q) == -1 ? -1 : 0;
	}
	queues_keep(&m->queues, queue, q);
	if (!same)
		queues_note_conf(&m->queues, queue);
	else if (older_files)
		log_info("handler_changed", log_str("queue", q->name));
	queues_recycle(&m->queues, queue, now_ms);
	return 0;
}

static void commit(struct master *m, struct conf *new, int64_t now_ms)
{
	struct changes d = { .globals = !conf_globals_equal(m->config.conf, new) };

	process_hide_memory(!new->supervisor.core);
	for (const struct queue_workers *q = NULL; (q = queues_next(&m->queues, q)) != NULL;)
		if (conf_queue_find(new, q->name) == NULL) {
			queues_leave(&m->queues, queues_place(&m->queues, q), m->config.epoch, now_ms);
			d.left++;
		}
	for (size_t i = 0; i < new->nqueues; i++)
		if (go_over(m, new, new->queues[i], &d, now_ms) == -1)
			log_error("queue_not_started", log_str("queue", new->queues[i]->name),
			    log_str("reason", "no room"));
	if (d.globals || d.entered + d.left + d.changed > 0 || !conf_schedules_equal(m->config.conf, new)) {
		m->config.epoch++;
		staffing_replace_sweeper(m, now_ms);
	}
	conf_free(m->config.conf);
	m->config.conf = new;
	log_info("reload_done", log_int("queues", (int64_t)new->nqueues), log_int("entered", d.entered),
	    log_int("left", d.left), log_int("changed", d.changed));
}

/* A state, so that status and health still say it when the log has moved on. */
static void note_outcome(struct master *m, const struct conf_report *report)
{
	free(m->config.failed.reason);
	m->config.failed.reason = NULL;
	m->config.failed.problems = report->errors;
	m->config.failed.at_ms = clock_realtime_ms();
	for (size_t i = report->n; i-- > 0;)
		if (!report->problems[i].warning) {
			free(m->config.failed.reason);
			m->config.failed.reason = alloc_string(report->problems[i].text);
		}
	atomic_store(&m->board->master.reload_failed, (uint32_t)report->errors);
}

int reload_run(struct master *m, struct conf_report *report, int64_t now_ms)
{
	struct conf *new;

	notify_reloading(&m->notify);
	*report = (struct conf_report){0};
	alloc_empty_holes();
	new = load(m, report);
	log_report(report);
	note_outcome(m, report);
	if (new == NULL)
		log_error("reload_failed", log_int("problems", (int64_t)report->errors),
		    log_str("reason", "the running configuration is kept"));
	else
		commit(m, new, now_ms);
	if (m->ready)
		notify_ready(&m->notify);
	return new == NULL ? -1 : 0;
}
