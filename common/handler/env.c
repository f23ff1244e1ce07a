/*
 * Builds the environment of a handler: an allow-list from the supervisor's own environment, what the configuration sets
 * or passes, the user's variables if the handler has another user, and the QUREDIS_ variables of the job. Nothing else
 * is passed, so neither NOTIFY_SOCKET nor credentials reach a handler.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/base.h"
#include "common/handler/env.h"
#include "common/handler/spawn.h"

/* The first is LEFTOVERS_TOKEN_NAME, which the worker got from the master. */
static const char *const passed[] = { "QUREDIS_BOOT_TOKEN", "PATH", "LANG", "TZ", "TMPDIR", "HOME", "USER", "LOGNAME",
    "SHELL" };

/* Never passed, even if the configuration names them: they are between the supervisor and its service manager. */
static const char *const refused[] = { "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "CREDENTIALS_DIRECTORY",
	"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "QUREDIS_REDIS_URL", "QUREDIS_REDIS_PREFIX" };

static size_t name_length(const char *var)
{
	return strcspn(var, "=");
}

static bool names(const char *var, const char *name)
{
	return name_length(var) == strlen(name) && memcmp(var, name, strlen(name)) == 0;
}

static bool named_in(const char *const *list, size_t n, const char *var)
{
	for (size_t i = 0; i < n; i++)
		if (names(var, list[i]))
			return true;
	return false;
}

static const char *inherited_value(char *const *inherited, const char *name)
{
	for (; *inherited != NULL; inherited++)
		if (names(*inherited, name))
			return *inherited + name_length(*inherited) + 1;
	return NULL;
}

/* Takes ownership of var. A later variable replaces an earlier one of the same name. */
static void set_variable(struct handler_env *e, char *var)
{
	char **vars = e->vars + HANDLER_ENV_JOB;

	for (size_t i = 0; i < e->nvars; i++) {
		if (name_length(vars[i]) == name_length(var) && memcmp(vars[i], var, name_length(var)) == 0) {
			free(vars[i]);
			vars[i] = var;
			return;
		}
	}
	e->vars = alloc_resize(e->vars, HANDLER_ENV_JOB + e->nvars + 2, sizeof(*e->vars));
	e->vars[HANDLER_ENV_JOB + e->nvars++] = var;
	e->vars[HANDLER_ENV_JOB + e->nvars] = NULL;
}

static void set_value(struct handler_env *e, const char *name, const char *value)
{
	if (value != NULL)
		set_variable(e, alloc_format("%s=%s", name, value));
}

static void set_passed(struct handler_env *e, char *const *inherited)
{
	set_value(e, passed[0], inherited_value(inherited, passed[0]));
	for (; *inherited != NULL; inherited++)
		if (strchr(*inherited, '=') != NULL &&
		    (named_in(passed, nitems(passed), *inherited) || strncmp(*inherited, "LC_", 3) == 0))
			set_variable(e, alloc_string(*inherited));
}

/* The shell of a service user is often nologin, which a handler could not use. */
static void set_user(struct handler_env *e, const struct conf_run_as *user)
{
	set_value(e, "HOME", user->home != NULL ? user->home : "/");
	set_value(e, "USER", user->login);
	set_value(e, "LOGNAME", user->login);
	set_value(e, "SHELL", "/bin/sh");
}

static void set_configured(struct handler_env *e, char *const *env, char *const *inherited)
{
	for (; *env != NULL; env++) {
		if (strncmp(*env, "QUREDIS_", 8) == 0 || named_in(refused, nitems(refused), *env))
			continue;
		if (strchr(*env, '=') != NULL)
			set_variable(e, alloc_string(*env));
		else
			set_value(e, *env, inherited_value(inherited, *env));
	}
}

/* So that a library can refuse what the worker would refuse, while the handler can still say why. */
static void set_emit(struct handler_env *e, const struct conf_emit *emit)
{
	struct buffer text = {0};

	buffer_format(&text, "QUREDIS_EMIT=%d %" PRId64 " %d", emit->max, emit->max_bytes, emit->max_depth);
	for (size_t i = 0; emit->targets[i] != NULL; i++)
		buffer_format(&text, " %s=%" PRId64 "%s", emit->queues[i], (int64_t)emit->targets[i]->message_max,
		    emit->targets[i]->shared ? ",shared" : "");
	buffer_append(&text, "", 1);
	set_variable(e, text.data);
}

void handler_env_init(struct handler_env *e, const struct conf_queue *conf, char *const *inherited)
{
	*e = (struct handler_env){0};
	e->vars = alloc_zero(HANDLER_ENV_JOB + 1, sizeof(*e->vars));
	set_variable(e, alloc_format("QUREDIS_QUEUE=%s", conf->name));
	if (handler_has_reply_fd(conf))
		set_variable(e, alloc_format("QUREDIS_REPLY_FD=%d", conf->reply_fd));
	if (conf->emit.targets != NULL)
		set_emit(e, &conf->emit);
	set_passed(e, inherited);
	if (conf->run_as.switch_user || conf->run_as.login != NULL)
		set_user(e, &conf->run_as);
	if (conf->env != NULL)
		set_configured(e, conf->env, inherited);
	set_value(e, "PATH", conf_handler_path(conf, inherited_value(inherited, "PATH")));
}

void handler_env_free(struct handler_env *e)
{
	for (size_t i = 0; i < e->nvars; i++)
		free(e->vars[HANDLER_ENV_JOB + i]);
	free(e->vars);
	buffer_free(&e->text);
}

/* ---- the variables of a job ---- */

struct writer {
	char *at;
	char **next;		/* the first variable that is set; the next one goes before it */
};

/* Every message pays for its variables, so their room is reserved once, and printf writes none of them. */
#define NAMES_MAX 320		/* bytes of the names, "=" and NULs of HANDLER_ENV_JOB variables */
#define NUMBERS_MAX (6 * (PUT_NUMBER_MAX + 1))

static struct writer begin(struct handler_env *e, size_t values)
{
	buffer_clear(&e->text);
	return (struct writer){ .at = buffer_room(&e->text, NAMES_MAX + NUMBERS_MAX + values),
	    .next = e->vars + HANDLER_ENV_JOB };
}

static void add_text(struct writer *w, const char *name, const char *value)
{
	*--w->next = w->at;
	w->at = put_text(put_text(w->at, name), value);
	*w->at++ = '\0';
}

static void add_number(struct writer *w, const char *name, int64_t value)
{
	*--w->next = w->at;
	w->at = put_signed(put_text(w->at, name), value);
	*w->at++ = '\0';
}

static size_t size_of_facts(char *const *facts)
{
	size_t size = 0;

	for (; facts != NULL && *facts != NULL; facts++)
		size += strlen(*facts) + 1;
	return size;
}

static void add_facts(struct writer *w, char *const *facts)
{
	for (; *facts != NULL; facts++)
		add_text(w, "", *facts);
}

static void add_attempt(struct writer *w, const struct handler_job *job)
{
	add_number(w, "QUREDIS_ATTEMPT=", job->attempt);
	add_number(w, "QUREDIS_MAX_ATTEMPTS=", job->max_attempts);
	add_number(w, "QUREDIS_REDELIVERED=", job->redelivered ? 1 : 0);
}

char *const *handler_env_for(struct handler_env *e, const struct handler_job *job, int64_t deadline_ms)
{
	const char *id = message_id(job->message), *request_id = job->message->request_id;
	const char *traceparent = message_traceparent(job->message);
	const struct message_schedule *schedule = &job->message->wrapper.schedule;
	const struct message_lineage *lineage = &job->message->wrapper.lineage;
	char at[CLOCK_RFC3339_SIZE];
	struct writer w = begin(e, strlen(job->incarnation) + strlen(id) + strlen(request_id) +
	    strlen(schedule->name) + strlen(lineage->root) + sizeof(at) + MESSAGE_TRACEPARENT_SIZE +
	    size_of_facts(job->facts));

	add_text(&w, "QUREDIS_INCARNATION=", job->incarnation);
	add_text(&w, "QUREDIS_ID=", id);
	add_number(&w, "QUREDIS_SIZE=", (int64_t)message_payload_len(job->message));
	if (job->facts == NULL)
		add_attempt(&w, job);
	else
		add_facts(&w, job->facts);
	if (deadline_ms != -1)
		add_number(&w, "QUREDIS_DEADLINE=", deadline_ms);
	if (request_id[0] != '\0')
		add_text(&w, "QUREDIS_REQUEST_ID=", request_id);
	if (traceparent != NULL)
		add_text(&w, "TRACEPARENT=", traceparent);
	if (schedule->name[0] != '\0') {
		add_text(&w, "QUREDIS_SCHEDULE=", schedule->name);
		add_text(&w, "QUREDIS_SCHEDULED_AT=", clock_rfc3339(schedule->at_ms, at));
	}
	if (lineage->depth > 0) {
		add_text(&w, "QUREDIS_ROOT=", lineage->root);
		add_number(&w, "QUREDIS_DEPTH=", lineage->depth);
	}
	return w.next;
}

char *const *handler_env_of_persistent(struct handler_env *e, const char *incarnation)
{
	struct writer w = begin(e, strlen(incarnation));

	add_text(&w, "QUREDIS_INCARNATION=", incarnation);
	return w.next;
}
