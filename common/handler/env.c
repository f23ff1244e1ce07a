/*
 * Builds the environment of a handler: an allow-list from the supervisor's own environment, what the configuration sets or
 * passes, the user's variables if the handler has another user, and the QUREDIS_ variables of the job. Nothing else is passed,
 * so neither NOTIFY_SOCKET nor credentials reach a handler.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/base.h"
#include "common/handler/env.h"
#include "common/handler/spawn.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

/* The first is LEFTOVERS_TOKEN_NAME, which the worker got from the master. */
static const char *const passed[] = { "QUREDIS_BOOT_TOKEN", "PATH", "LANG", "TZ", "TMPDIR", "HOME", "USER", "LOGNAME", "SHELL" };

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
	set_value(e, "PATH", DEFAULT_PATH);
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
	set_value(e, "PATH", DEFAULT_PATH);
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

void handler_env_init(struct handler_env *e, const struct conf_queue *conf, char *const *inherited)
{
	*e = (struct handler_env){0};
	e->vars = alloc_zero(HANDLER_ENV_JOB + 1, sizeof(*e->vars));
	set_passed(e, inherited);
	if (conf->run_as.switch_user || conf->run_as.login != NULL)
		set_user(e, &conf->run_as);
	if (conf->env != NULL)
		set_configured(e, conf->env, inherited);
}

void handler_env_free(struct handler_env *e)
{
	for (size_t i = 0; i < e->nvars; i++)
		free(e->vars[HANDLER_ENV_JOB + i]);
	free(e->vars);
	buffer_free(&e->text);
}

#define add(e, ...) (buffer_format(&(e)->text, __VA_ARGS__), buffer_append(&(e)->text, "", 1))

/* Sets the pointers into the text, which does not move any more. */
static char *const *with_text(struct handler_env *e)
{
	char **first = e->vars + HANDLER_ENV_JOB;

	for (size_t i = e->text.len; i-- > 0;)
		if (i == 0 || e->text.data[i - 1] == '\0')
			*--first = e->text.data + i;
	return first;
}

static void add_attempt(struct handler_env *e, const struct handler_job *job)
{
	add(e, "QUREDIS_ATTEMPT=%d", job->attempt);
	add(e, "QUREDIS_MAX_ATTEMPTS=%d", job->max_attempts);
	add(e, "QUREDIS_REDELIVERED=%d", job->redelivered ? 1 : 0);
}

static void add_reply_fd(struct handler_env *e, const struct conf_queue *conf)
{
	if (handler_has_reply_fd(conf))
		add(e, "QUREDIS_REPLY_FD=%d", conf->reply_fd);
}

char *const *handler_env_for(struct handler_env *e, const struct conf_queue *conf, const struct handler_job *job, int64_t deadline_ms)
{
	buffer_clear(&e->text);
	add(e, "QUREDIS_INCARNATION=%s", job->incarnation);
	add(e, "QUREDIS_QUEUE=%s", conf->name);
	add(e, "QUREDIS_ID=%s", message_id(job->message));
	add(e, "QUREDIS_SIZE=%zu", message_payload_len(job->message));
	if (job->facts == NULL)
		add_attempt(e, job);
	for (size_t i = 0; job->facts != NULL && job->facts[i] != NULL; i++)
		add(e, "%s", job->facts[i]);
	if (deadline_ms != -1)
		add(e, "QUREDIS_DEADLINE=%" PRId64, deadline_ms);
	if (job->message->request_id[0] != '\0')
		add(e, "QUREDIS_REQUEST_ID=%s", job->message->request_id);
	add_reply_fd(e, conf);
	return with_text(e);
}

char *const *handler_env_of_persistent(struct handler_env *e, const struct conf_queue *conf, const char *incarnation)
{
	buffer_clear(&e->text);
	add(e, "QUREDIS_INCARNATION=%s", incarnation);
	add(e, "QUREDIS_QUEUE=%s", conf->name);
	add_reply_fd(e, conf);
	return with_text(e);
}
