/*
 * Builds the environment of a handler: an allow-list from the supervisor's own environment, what the configuration sets
 * or passes, the user's variables if the handler has another user, and the QUREDIS_ variables of the job. Nothing else
 * is passed, so neither NOTIFY_SOCKET nor credentials reach a handler.
 */
#include <assert.h>
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

/* ---- the variables of a job ---- */

#define NUMBER_SIZE (PUT_NUMBER_MAX + 1)

/* size: bytes of the longest value, with its NUL. */
static const struct {
	const char *name;
	size_t size;
} job_variables[HANDLER_JOB_VARIABLES] = {
	[HANDLER_JOB_INCARNATION] = { "QUREDIS_INCARNATION=", HANDLER_INCARNATION_SIZE },
	[HANDLER_JOB_ID] = { "QUREDIS_ID=", sizeof(((struct message *)0)->id) },
	[HANDLER_JOB_SIZE] = { "QUREDIS_SIZE=", NUMBER_SIZE },
	[HANDLER_JOB_ATTEMPT] = { "QUREDIS_ATTEMPT=", NUMBER_SIZE },
	[HANDLER_JOB_MAX_ATTEMPTS] = { "QUREDIS_MAX_ATTEMPTS=", NUMBER_SIZE },
	[HANDLER_JOB_REDELIVERED] = { "QUREDIS_REDELIVERED=", NUMBER_SIZE },
	[HANDLER_JOB_DEADLINE] = { "QUREDIS_DEADLINE=", NUMBER_SIZE },
	[HANDLER_JOB_REQUEST_ID] = { "QUREDIS_REQUEST_ID=", sizeof(((struct message *)0)->request_id) },
	[HANDLER_JOB_TRACEPARENT] = { "TRACEPARENT=", MESSAGE_TRACEPARENT_SIZE },
	[HANDLER_JOB_SCHEDULE] = { "QUREDIS_SCHEDULE=", sizeof(((struct message_schedule *)0)->name) },
	[HANDLER_JOB_SCHEDULED_AT] = { "QUREDIS_SCHEDULED_AT=", CLOCK_RFC3339_SIZE },
	[HANDLER_JOB_ROOT] = { "QUREDIS_ROOT=", sizeof(((struct message_lineage *)0)->root) },
	[HANDLER_JOB_DEPTH] = { "QUREDIS_DEPTH=", NUMBER_SIZE },
};

/* Every message pays for its variables, so their names are written once, and a number only if it is another one than
 * that of the last message. */
static void init_job_variables(struct handler_env *e)
{
	size_t size = 0;
	char *at;

	for (size_t i = 0; i < HANDLER_JOB_VARIABLES; i++)
		size += strlen(job_variables[i].name) + job_variables[i].size;
	at = e->text = alloc_zero(size, 1);
	for (size_t i = 0; i < HANDLER_JOB_VARIABLES; i++) {
		struct handler_job_variable *v = &e->job[i];

		v->text = at;
		v->value = put_text(at, job_variables[i].name);
		at = v->value + job_variables[i].size;
	}
	assert(at == e->text + size);
}

/* next: the first variable that is set; the next one goes before it. */
static void add_text(struct handler_env *e, char ***next, enum handler_job_variable_name name, const char *value)
{
	size_t size = strlen(value) + 1;

	assert(size <= job_variables[name].size);
	memcpy(e->job[name].value, value, size);
	*--*next = e->job[name].text;
}

static void write_number(struct handler_job_variable *v, int64_t number)
{
	*put_signed(v->value, number) = '\0';
	v->number = number;
}

static void add_number(struct handler_env *e, char ***next, enum handler_job_variable_name name, int64_t number)
{
	struct handler_job_variable *v = &e->job[name];

	if (v->value[0] == '\0' || v->number != number)
		write_number(v, number);
	*--*next = v->text;
}

static void add_attempt(struct handler_env *e, char ***next, const struct handler_job *job)
{
	add_number(e, next, HANDLER_JOB_ATTEMPT, job->attempt);
	add_number(e, next, HANDLER_JOB_MAX_ATTEMPTS, job->max_attempts);
	add_number(e, next, HANDLER_JOB_REDELIVERED, job->redelivered ? 1 : 0);
}

/* Variables that only some messages have. */
static void add_of_message(struct handler_env *e, char ***next, const struct message *m)
{
	const struct message_schedule *schedule = &m->wrapper.schedule;
	const struct message_lineage *lineage = &m->wrapper.lineage;
	const char *traceparent = message_traceparent(m);
	char at[CLOCK_RFC3339_SIZE];

	if (m->request_id[0] != '\0')
		add_text(e, next, HANDLER_JOB_REQUEST_ID, m->request_id);
	if (traceparent != NULL)
		add_text(e, next, HANDLER_JOB_TRACEPARENT, traceparent);
	if (schedule->name[0] != '\0') {
		add_text(e, next, HANDLER_JOB_SCHEDULE, schedule->name);
		add_text(e, next, HANDLER_JOB_SCHEDULED_AT, clock_rfc3339(schedule->at_ms, at));
	}
	if (lineage->depth > 0) {
		add_text(e, next, HANDLER_JOB_ROOT, lineage->root);
		add_number(e, next, HANDLER_JOB_DEPTH, lineage->depth);
	}
}

char *const *handler_env_for(struct handler_env *e, const struct handler_job *job, int64_t deadline_ms)
{
	char **next = e->vars + HANDLER_ENV_JOB;

	add_text(e, &next, HANDLER_JOB_INCARNATION, job->incarnation);
	add_text(e, &next, HANDLER_JOB_ID, message_id(job->message));
	add_number(e, &next, HANDLER_JOB_SIZE, (int64_t)message_payload_len(job->message));
	if (job->facts == NULL)
		add_attempt(e, &next, job);
	for (char *const *facts = job->facts; facts != NULL && *facts != NULL; facts++)
		*--next = *facts;
	if (deadline_ms != -1)
		add_number(e, &next, HANDLER_JOB_DEADLINE, deadline_ms);
	add_of_message(e, &next, job->message);
	return next;
}

char *const *handler_env_of_persistent(struct handler_env *e, const char *incarnation)
{
	char **next = e->vars + HANDLER_ENV_JOB;

	add_text(e, &next, HANDLER_JOB_INCARNATION, incarnation);
	return next;
}

/* ---- all variables ---- */

void handler_env_init(struct handler_env *e, const struct conf_queue *conf, char *const *inherited)
{
	*e = (struct handler_env){0};
	e->vars = alloc_zero(HANDLER_ENV_JOB + 1, sizeof(*e->vars));
	init_job_variables(e);
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
	free(e->text);
}
