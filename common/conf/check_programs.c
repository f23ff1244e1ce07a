/*
 * Checks the programs of queues against this host, at load time only: whether others can change them, which is an
 * error. command.c judges whether they exist and can be executed, which blocks their queue alone.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"

/* A program that is missing, or cannot be executed, blocks its queue alone: command.c finds that. */
static void check_program(struct conf_loading *l, const struct conf_queue *q, const struct conf_origin *where,
    const char *key, const char *path)
{
	if (path[0] != '/')
		conf_error(l, where, "%s: expected an absolute path as the first element, not \"%s\"", key, path);
	else
		conf_check_path(l, where, key, path, q->run_as.uid, q->run_as.uid == 0);
}

static void check_script(struct conf_loading *l, const struct conf_queue *q)
{
	struct conf_script script;
	char *path;

	if (!conf_find_script(q->handler, &script))
		return;
	path = conf_run_path(q, script.path);
	conf_check_path(l, conf_queue_origin(q, "handler"), "handler", path, q->run_as.uid, q->run_as.uid == 0);
	free(path);
}

/* A handler that succeeds whatever it gets deletes each message. */
static void check_env_program(struct conf_loading *l, const struct conf_queue *q)
{
	if (q->handler[0][0] == '/' && conf_is_env(q->handler[0]) && conf_env_runs_nothing(q->handler))
		conf_error(l, conf_queue_origin(q, "handler"),
		    "handler: %s runs no program, so each message would count as done: name one behind it",
		    q->handler[0]);
}

/* Of a handler that follows from a function: its interpreter, its runner and its file. */
static void check_function(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_origin *where = conf_queue_origin(q, "function");
	struct conf_function_parts parts;

	conf_function_parts(q, &parts);
	check_program(l, q, where, "interpreter", q->handler[0]);
	conf_check_path(l, where, "function: its runner", parts.runner, q->run_as.uid, q->run_as.uid == 0);
	conf_check_path(l, where, "function", parts.file, q->run_as.uid, q->run_as.uid == 0);
	free(parts.file);
}

/* ---- commands that run as the handler does, beside it ---- */

static const struct own_command {
	const char *key;
	size_t in_conf, in_queue;	/* where its words are */
	bool blocks;			/* what the queue promises requires it */
} commands[] = {
	{ "purge.check", offsetof(struct conf, purge.check), offsetof(struct conf_queue, purge.check), true },
	{ "health.on_change", offsetof(struct conf, health.on_change), offsetof(struct conf_queue, health.on_change),
	  false },
};

static char **words_of(const void *conf, size_t offset)
{
	return *(char **const *)((const char *)conf + offset);
}

void conf_check_commands(struct conf_loading *l, const struct conf_queue *q)
{
	for (const struct own_command *c = commands; c < commands + nitems(commands); c++) {
		const struct conf_origin *where = q == NULL ? conf_origin(l->conf, c->key)
		    : conf_queue_origin(q, c->key);
		char **words = q == NULL ? words_of(l->conf, c->in_conf) : words_of(q, c->in_queue);

		if (conf_given(where) && where->kind != CONF_ORIGIN_BAD && words != NULL && words[0][0] != '/')
			conf_error(l, where, "%s: expected an absolute path as the first element, not \"%s\"", c->key,
			    words[0]);
	}
}

/* True: the global command was checked already, with an earlier queue of the same user. */
static bool is_checked(const struct conf_loading *l, const struct conf_queue *q, const char *key)
{
	for (size_t i = 0; !conf_given(conf_queue_origin(q, key)) && i < l->conf->nqueues && l->conf->queues[i] != q;
	    i++) {
		const struct conf_queue *other = l->conf->queues[i];

		if (!conf_given(conf_queue_origin(other, key)) && conf_is_served(l, other) &&
		    other->run_as.uid == q->run_as.uid && other->run_as.gid == q->run_as.gid)
			return true;
	}
	return false;
}

struct blocking {
	struct conf_loading *l;
	const struct conf_queue *q;
	const struct conf_origin *where;	/* NULL: where the queue has the key of the flaw */
	bool only_warns;
};

static void report_blocked(void *arg, const struct conf_flaw *flaw)
{
	const struct blocking *b = arg;

	if (!conf_is_planned(b->l, flaw->path))
		(flaw->is_doubt || b->only_warns ? conf_warning : conf_blocked)(b->l,
		    b->where != NULL ? b->where : conf_queue_origin(b->q, flaw->key), "%s: %s: %s: %s",
		    flaw->key, flaw->path, flaw->text, flaw->advice);
}

static enum conf_inherits whose_path(const struct conf_loading *l)
{
	return (l->flags & CONF_LOOK) != 0 ? CONF_INHERITS_OTHER : CONF_INHERITS_THIS;
}

static void check_command(struct conf_loading *l, const struct conf_queue *q, const struct own_command *c)
{
	char **words = words_of(q, c->in_queue);
	struct blocking b = { l, q, conf_given(conf_queue_origin(q, c->key)) ? conf_queue_origin(q, c->key)
	    : conf_origin(l->conf, c->key), !c->blocks };

	/* not absolute: conf_check_commands() reports it */
	if (words == NULL || words[0][0] != '/' || is_checked(l, q, c->key))
		return;
	check_program(l, q, b.where, c->key, words[0]);
	conf_command_check(q, c->key, words, whose_path(l), report_blocked, &b);
}

void conf_check_execution(struct conf_loading *l, struct conf_queue *q)
{
	conf_check_user(l, q);
	if (conf_queue_origin(q, "handler")->kind == CONF_ORIGIN_DERIVED) {
		check_function(l, q);
	} else if (q->handler != NULL) {
		check_program(l, q, conf_queue_origin(q, "handler"), "handler", q->handler[0]);
		check_script(l, q);
		check_env_program(l, q);
	}
	conf_program_check(q, whose_path(l), report_blocked, &(struct blocking){ l, q, NULL, false });
	for (size_t i = 0; i < nitems(commands); i++)
		check_command(l, q, &commands[i]);
}
