/*
 * purge.check: a command that may object to the purge of a message (sweeper/core/command.h). Exit status 0 agrees. One
 * check runs at a time, for all queues.
 */
#include <inttypes.h>

#include "sweeper/age/purge.h"

#include "common/base/base.h"
#include "sweeper/core/core.h"

void purge_check_ask(struct purge_question *k, const char *message, size_t len, const struct verdict *v)
{
	buffer_append(&k->message, message, len);
	k->verdict = *v;
	k->open = true;
}

void purge_check_drop(struct purge_question *k)
{
	buffer_free(&k->message);
	k->open = false;
}

static struct purge_check *check_of(const struct sweeper *s)
{
	return task_own(s, &purge_task);
}

const struct sweeper_queue *purge_check_queue(const struct sweeper *s)
{
	return check_of(s)->q;
}

/* Logs a failure once a round, since a command that cannot be run fails for each message. */
static void note_failure(struct sweeper_queue *q, const char *error)
{
	struct purge *p = purge_of(q);

	if (p->question.failed_ms != p->begun_ms)
		log_warning("purge_check_failed", log_str("queue", q->keys.name),
		    log_str("command", q->conf->purge.check[0]),
		    log_str("error", error), log_str("advice", "messages that it is asked about stay where they are"));
	p->question.failed_ms = p->begun_ms;
}

int purge_check_start(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	const struct purge_question *k = &purge_of(q)->question;
	struct purge_check *c = check_of(s);
	struct command_facts facts = {0};
	const char *why;

	command_fact(&facts, "QUREDIS_AGE_MS=%" PRId64, k->verdict.excess.age_ms);
	command_fact(&facts, "QUREDIS_LIMIT_MS=%" PRId64, k->verdict.excess.limit_ms);
	command_fact(&facts, "QUREDIS_REASON=%s", k->verdict.rule);
	command_fact(&facts, "QUREDIS_DRY_RUN=%d", s->conf->purge.dry_run);
	why = command_start(&c->subprocess, s, q, &(struct command_run){ "check", q->conf->purge.check,
	    k->message.len == 0 ? "" : k->message.data, k->message.len, &facts }, now_ms);
	if (why != NULL) {
		note_failure(q, why);
		return -1;
	}
	c->q = q;
	return 0;
}

bool purge_check_ended(struct sweeper *s, bool *agreed, int64_t now_ms)
{
	struct purge_check *c = check_of(s);
	enum command_end end;
	const char *why;

	if (!command_ended(&c->subprocess, &end, &why, now_ms))
		return false;
	*agreed = end == COMMAND_SUCCEEDED;
	if (end == COMMAND_REFUSED)
		log_debug("message_spared", log_str("queue", c->q->keys.name), log_str("error", why));
	else if (end == COMMAND_FAILED)
		note_failure(c->q, why);
	c->q = NULL;
	return true;
}

void purge_check_stop(struct sweeper *s)
{
	subprocess_free(&check_of(s)->subprocess);
	check_of(s)->q = NULL;
}
