/*
 * Prepares a command: loads the configuration, connects to Redis (connection.c), and finds the queue that the operand
 * names (lookup.c). It also prints the errors of all commands.
 */
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <jansson.h>

#include "admin/cli/admin.h"

#include "admin/cli/command.h"
#include "admin/cli/connection.h"
#include "admin/cli/lookup.h"
#include "admin/cli/moment.h"
#include "admin/cli/notice.h"
#include "admin/cli/visible.h"
#include "common/base/base.h"
#include "common/queue/queue.h"

const char *admin_user(void)
{
	const char *login = getlogin();
	const struct passwd *user = login == NULL ? getpwuid(getuid()) : NULL;

	return login != NULL ? login : user != NULL ? user->pw_name : NULL;
}

char *admin_name(const struct admin *a, size_t max_columns)
{
	const char *user = admin_user();
	char host[256] = "", *text, *shown;

	gethostname(host, sizeof(host) - 1);
	text = alloc_format("%s@%s%s", user == NULL ? "?" : user, host, a->served ? " (console)" : "");
	shown = visible(text, strlen(text), max_columns);
	free(text);
	return shown;
}

int admin_fail(struct admin *a, int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (a->complaint != NULL)
		vsnprintf(a->complaint, COMPLAINT_SIZE, fmt, ap);
	else
		notice_print_args("quredis: ", fmt, ap);
	va_end(ap);
	a->status = status;
	return -1;
}

void admin_note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	notice_print_args("", fmt, ap);
	va_end(ap);
}

/* ---- configuration ---- */

/* A command chooses once: a console that runs for weeks must not take a file that appears meanwhile. */
void admin_choose_conf(struct admin *a)
{
	conf_choose(a->options.conf_path, &a->choice);
	if (!a->choice.system)
		a->options.conf_path = a->choice.path;
}

const char *admin_conf_path(const struct admin *a)
{
	if (a->options.conf_path != NULL)
		return a->options.conf_path;
	return access(CONF_SYSTEM_PATH, R_OK) == 0 ? CONF_SYSTEM_PATH : NULL;	/* without a file, the defaults apply */
}

void admin_note_conf(const struct admin *a)
{
	char *file;

	if (a->choice.path == NULL || strcmp(a->choice.why, "-c") == 0 || a->complaint != NULL)
		return;
	file = conf_choice_text(&a->choice);
	admin_note("quredis: the configuration is %s%s", file,
	    admin_conf_path(a) == NULL ? ", which does not exist" : "");
	free(file);
}

void admin_say_flaws(struct admin *a)
{
	for (size_t i = 0; i < a->flaws.n; i++)
		admin_note("warning: %s", a->flaws.problems[i].text);
	conf_report_free(&a->flaws);
}

static void complain_of_error(const struct admin *a, const struct conf_report *report)
{
	for (size_t i = report->n; i-- > 0;)
		if (!report->problems[i].warning)
			snprintf(a->complaint, COMPLAINT_SIZE, "the configuration has errors: %s",
			    report->problems[i].text);
}

/* "status, stop": the commands that need only the control socket. */
static void note_what_works(const struct admin *a)
{
	struct buffer names = {0};

	for (size_t i = 0; i < a->commands->n; i++)
		if (a->commands->all[i].need == NEED_CONTROL || a->commands->all[i].need == NEED_SOCKET)
			buffer_format(&names, "%s%s", names.len == 0 ? "" : ", ", a->commands->all[i].name);
	buffer_append(&names, "", 1);
	admin_note("quredis: as long as the configuration has errors, it is not known for certain which Redis is "
	    "meant, and which prefix, so only commands that ask the supervisor of this host work, with -s SOCKET if it "
	    "has another control socket: %s", names.data);
	buffer_free(&names);
}

static int loaded(struct admin *a, struct conf_report *report)
{
	if (a->conf == NULL) {
		conf_report_print(report, stderr);
		admin_note_conf(a);
		if (a->complaint != NULL)
			complain_of_error(a, report);
		if (!a->served && a->commands != NULL)
			note_what_works(a);
		a->status = EX_CONFIG;
	}
	conf_report_free(report);
	return a->conf == NULL ? -1 : 0;
}

/* -u may ask for TLS where the configuration does not: its files are needed then. */
unsigned admin_load_flags(const struct admin *a)
{
	return CONF_LENIENT_HANDLERS | (a->options.url != NULL && strncmp(a->options.url, "rediss://", 9) == 0
	    ? CONF_TLS : 0);
}

int admin_load(struct admin *a)
{
	struct conf_report report;

	a->conf = conf_load(admin_conf_path(a), admin_load_flags(a), &report);
	return loaded(a, &report);
}

/* The supervisor runs with the configuration that it read, whatever the file has become. */
static void load_for_control(struct admin *a, enum admin_need need)
{
	bool quiet = a->served || (need == NEED_SOCKET && !a->options.dry_run);

	a->conf = conf_load(admin_conf_path(a), CONF_LENIENT_HANDLERS | CONF_DESPITE_ERRORS, &a->flaws);
	a->flawed = a->flaws.errors > 0;
	if (!a->flawed)
		conf_report_free(&a->flaws);
	if (!quiet)
		admin_say_flaws(a);
}

int admin_load_to_run(struct admin *a, const char *queue)
{
	struct conf_report report;

	a->conf = conf_load_to_run(admin_conf_path(a), queue, &report);
	return loaded(a, &report);
}

/* ---- replies of Redis ---- */

int admin_refused(struct admin *a, const struct redis_reply *reply, const char *key)
{
	char *text = visible(reply->str, reply->len, 300), *shown = key == NULL ? NULL : visible(key, strlen(key), 200),
	    room[QUEUE_ADVICE_SIZE];
	const char *advice = queue_refusal_advice(reply->str, room);
	const char *before = shown == NULL ? "Redis" : shown;
	int rc;

	/* it uses several keys */
	if (redis_error_class(reply) == REDIS_ERROR_WRONG_TYPE && strstr(reply->str, "script") != NULL)
		rc = admin_fail(a, EX_CONFIG, "%s, or another key of this queue, has the wrong type (WRONGTYPE) and "
		    "was not changed: quredis doctor names it", before);
	else if (redis_error_class(reply) == REDIS_ERROR_WRONG_TYPE)
		rc = admin_fail(a, EX_CONFIG, "%s has the wrong type (WRONGTYPE); it was left unchanged", before);
	else if (redis_error_class(reply) == REDIS_ERROR_SCHEMA)
		rc = admin_fail(a, EX_CONFIG,
		    "%s: %s: another version of quredis wrote these keys: use that one (docs/versions.md)", before,
		    text);
	else if (redis_error_class(reply) == REDIS_ERROR_SECRET)
		rc = admin_fail(a, EX_CONFIG, "%s: %s", before, text);
	else if (redis_error_class(reply) == REDIS_ERROR_PERMISSION ||
	    redis_error_class(reply) == REDIS_ERROR_NO_COMMAND)
		rc = admin_fail(a, EX_NOPERM, "%s: %s%s%s", before, text, advice == NULL ? "" : ": ",
		    advice == NULL ? "" : advice);
	else
		rc = admin_fail(a, EX_TEMPFAIL, "%s: %s", before, text);
	free(text);
	free(shown);
	return rc;
}

int admin_wait(struct admin *a, struct redis_reply *reply)
{
	int64_t ms = a->wait_ms != 0 ? a->wait_ms : a->writes ? ADMIN_WRITE_TIMEOUT_MS : ADMIN_TIMEOUT_MS;

	if (redis_wait(&a->redis, reply, ms + a->extra_ms, NULL) == 0)
		return 0;
	a->answer_lost = true;
	return admin_fail(a, EX_UNAVAILABLE, "Redis: %s", a->redis.error);
}

int admin_reply(struct admin *a, struct redis_reply *reply, const char *key)
{
	if (admin_wait(a, reply) == -1)
		return -1;
	return reply->type == REDIS_ERROR ? admin_refused(a, reply, key) : 0;
}

int admin_reply_of(struct admin *a, struct redis_reply *reply, char *key)
{
	int rc = admin_reply(a, reply, key);

	free(key);
	return rc;
}

int admin_integer(struct admin *a, int64_t *value, const char *key)
{
	struct redis_reply reply;

	if (admin_reply(a, &reply, key) == -1)
		return -1;
	if (reply.type != REDIS_INTEGER || reply.integer < QUEUE_CANNOT_TELL || reply.integer > ADMIN_COUNT_MAX)
		return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected a number");
	*value = reply.integer;
	return 0;
}

int admin_seals(struct admin *a)
{
	struct redis_reply reply;

	if (seal_known()->n > 0)
		return 0;
	queue_secret(&a->redis, true);
	do
		if (admin_reply(a, &reply, NULL) == -1)
			return -1;
	while (queue_secret_ask_again(&a->redis, true, &a->keys, &reply));
	return queue_secret_learn(&reply) == -1
	    ? admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis when reading the secrets (quredis:secret)") : 0;
}

int64_t admin_count_in(const json_t *object, const char *key)
{
	const json_t *n = json_object_get(object, key);

	return json_is_integer(n) && json_integer_value(n) >= 0 && json_integer_value(n) <= ADMIN_COUNT_MAX
	    ? json_integer_value(n) : -1;
}

int admin_server_time(struct admin *a, int64_t *ms)
{
	struct redis_reply reply;

	redis_appendf(&a->redis, "TIME");
	if (admin_reply(a, &reply, NULL) == -1)
		return -1;
	*ms = queue_time_parse(&reply);
	return *ms == -1 ? admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected the time") : 0;
}

int admin_since(struct admin *a, const char *text, int64_t *server_ms, int64_t *since_ms)
{
	char stamp[CLOCK_RFC3339_SIZE];

	if (admin_server_time(a, server_ms) == -1)
		return -1;
	if (moment_parse(text, *server_ms, since_ms) == -1 || *since_ms > *server_ms)
		return admin_fail(a, EX_USAGE, "--since: expected " MOMENT_WANTED);
	if (*server_ms - *since_ms > QUEUE_RATE_KEPT_MS && !a->served)
		admin_note("figures are kept for three days: there are none before %s",
		    clock_rfc3339(*server_ms - QUEUE_RATE_KEPT_MS, stamp));
	return 0;
}

int admin_show_ages(struct admin *a)
{
	return a->output.terminal && !a->options.json ? admin_server_time(a, &a->output.now_ms) : 0;
}

/* ---- the whole ---- */

int admin_prepare(struct admin *a, enum admin_need need)
{
	if (need == NEED_SOCKET || need == NEED_CONTROL)
		load_for_control(a, need);
	if (need >= NEED_CONF && admin_load(a) == -1)
		return -1;
	a->lpush_only = need == NEED_INGRESS && (a->options.given & OPTION_NOT_LPUSH) == 0;
	if (need >= NEED_REDIS && connection_open(a) == -1)
		return -1;
	if (need < NEED_QUEUE)
		return 0;
	a->queue = conf_queue_find(a->conf, a->operands[0]);
	if (lookup_queue(a, a->operands[0], &a->keys) == -1)
		return -1;
	return 0;
}

void admin_close(struct admin *a)
{
	redis_close(&a->redis, NULL);
	queue_keys_free(&a->keys);
	redis_target_free(&a->target);
	if (a->conf != NULL)
		conf_free(a->conf);
	json_decref(a->supervisor);
	conf_report_free(&a->flaws);
	options_free(&a->options);
	conf_choice_free(&a->choice);
}

/* ---- lists ---- */

static const char *const list_names[] = {
	[LIST_INGRESS] = "ingress", [LIST_TRANSIT] = "transit", [LIST_ESCAPE] = "escape", [LIST_DELAYED] = "delayed",
};

const char *admin_list_name(enum admin_list list)
{
	return list_names[list];
}

int admin_list_parse(struct admin *a, const char *word, unsigned allowed, enum admin_list *list)
{
	const char *near = nearest(word, list_names, nitems(list_names));
	char *shown;

	for (size_t i = 0; i < nitems(list_names); i++)
		if (strcmp(word, list_names[i]) == 0 && (allowed & LIST_BIT(i)) != 0) {
			*list = (enum admin_list)i;
			return 0;
		}
	shown = visible(word, strlen(word), 100);
	if (near != NULL && strcmp(near, word) != 0)
		admin_fail(a, EX_USAGE, "no such type: %s (did you mean %s?)", shown, near);
	else
		admin_fail(a, EX_USAGE, "type %s is not one of %s%s%s%s", shown,
		    allowed & LIST_BIT(LIST_INGRESS) ? "ingress " : "",
		    allowed & LIST_BIT(LIST_TRANSIT) ? "transit " : "",
		    allowed & LIST_BIT(LIST_ESCAPE) ? "escape " : "",
		    allowed & LIST_BIT(LIST_DELAYED) ? "delayed" : "");
	free(shown);
	return -1;
}
