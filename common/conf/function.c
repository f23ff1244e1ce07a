/*
 * A function as the handler of a queue (quredis-function(7)): the extension of its file chooses the runner, a
 * persistent handler that loads it. The handler that follows from `function` is a value like any other, so quredisd -T,
 * a reload and the worker need to know nothing of functions.
 */
#include <sys/stat.h>

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"
#define REPLY_FD 3	/* what the function prints stays apart from the answers of its runner */

static const struct language {
	const char *extensions[4];
	const char *runner;		/* its name in the folder of runners */
	const char *interpreter;	/* where distributions install it */
	const char *package;		/* of Debian, which has it */
	bool forks;
	const char *lack;		/* a part of the error for a module that is not found */
	const char *modules;		/* the environment variable with folders of modules; NULL: none */
} languages[] = {
	{ { "py" }, "quredis-python", "/usr/bin/python3", "python3", true, "ModuleNotFoundError", "PYTHONPATH" },
	{ { "rb" }, "quredis-ruby", "/usr/bin/ruby", "ruby", true, "cannot load such file", "RUBYLIB" },
	{ { "js", "mjs", "cjs" }, "quredis-node", "/usr/bin/node", "nodejs", false, "Cannot find module", "NODE_PATH" },
	{ { "php" }, "quredis-php", "/usr/bin/php", "php-cli", true, "Failed opening required", NULL },
	{ { "pl", "pm" }, "quredis-perl", "/usr/bin/perl", "perl", true, "Can't locate", "PERL5LIB" },
};

/* ---- the parts of a function ---- */

/* The length of FILE in FILE:FUNCTION; a function may be a method, as in jobs.php:Mail::send. */
static size_t file_length(const char *function)
{
	const char *slash = strrchr(function, '/'), *colon = strchr(slash == NULL ? function : slash, ':');

	return colon == NULL ? strlen(function) : (size_t)(colon - function);
}

static bool has_extension(const struct language *language, const char *extension)
{
	for (size_t i = 0; i < nitems(language->extensions) && language->extensions[i] != NULL; i++)
		if (strcmp(language->extensions[i], extension) == 0)
			return true;
	return false;
}

/* NULL: no language has the extension of the file. */
static const struct language *language_of(const char *function)
{
	char file[PATH_MAX];
	const char *dot, *slash;
	size_t len = file_length(function);

	strlcpy(file, function, len + 1 < sizeof(file) ? len + 1 : sizeof(file));
	dot = strrchr(file, '.');
	slash = strrchr(file, '/');
	for (size_t i = 0; dot != NULL && dot > slash && i < nitems(languages); i++)
		if (has_extension(&languages[i], dot + 1))
			return &languages[i];
	return NULL;
}

/* The folder of runners: that of an installation, or beside a program that was built and not installed. */
static char *runner_path(const char *runner)
{
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *beside;

	if (len > 0) {
		self[len] = '\0';
		*strrchr(self, '/') = '\0';
		beside = alloc_format("%s/runtimes/%s", self, runner);
		if (access(beside, F_OK) == 0)
			return beside;
		free(beside);
	}
	return alloc_format("%s/%s", QUREDIS_LIBEXECDIR, runner);
}

/* ---- the handler that follows ---- */

static size_t count(char **list)
{
	size_t n = 0;

	while (list != NULL && list[n] != NULL)
		n++;
	return n;
}

static char **command_line(const struct conf_queue *q, const struct language *language)
{
	static const char *const options[] = { [CONF_MESSAGE_JSON] = "--json", [CONF_MESSAGE_TEXT] = "--text" };
	size_t given = count(q->interpreter), n = 0;
	char **argv = alloc_zero(given + 6, sizeof(*argv));

	for (; n < given; n++)
		argv[n] = alloc_string(q->interpreter[n]);
	if (given == 0)
		argv[n++] = alloc_string(language->interpreter);
	argv[n++] = runner_path(language->runner);
	if (q->isolate)
		argv[n++] = alloc_string("--isolate");
	if (q->message != CONF_MESSAGE_BYTES)
		argv[n++] = alloc_string(options[q->message]);
	argv[n] = alloc_string(q->function);
	return argv;
}

static void set_derived(struct conf_queue *q, const char *key)
{
	*conf_queue_origin(q, key) = (struct conf_origin){ CONF_ORIGIN_DERIVED, 0, "function" };
}

static void forget(struct conf_queue *q, const char *key)
{
	conf_value_free(conf_key_find(&conf_schema_queue, key), q);
	*conf_queue_origin(q, key) = (struct conf_origin){ .kind = CONF_ORIGIN_NONE };
}

/* Gives way to the runner, with a warning if the queue itself says something else. */
static void override(struct conf_loading *l, struct conf_queue *q, const char *key, bool differs)
{
	if (differs && conf_given_in_queue(l, q, key))
		conf_warning(l, conf_queue_origin(q, key), "queue %s: %s has no effect with function",
		    conf_shown_name(q), key);
	set_derived(q, key);
}

void conf_derive_handler(struct conf_loading *l, struct conf_queue *q, bool own_function, bool own_handler)
{
	const struct language *language;

	if (q->function == NULL)
		return;
	if (own_handler && !own_function) {	/* it takes the place of a function of `defaults` */
		forget(q, "function");
		return;
	}
	if (own_handler)
		return;				/* conf_check_function() reports it, and what is wrong below */
	forget(q, "handler");
	language = language_of(q->function);
	if (language == NULL || q->function[0] != '/')
		return;
	q->handler = command_line(q, language);
	set_derived(q, "handler");
	override(l, q, "mode", q->mode != CONF_MODE_PERSISTENT);
	override(l, q, "ready", !q->ready);
	q->mode = CONF_MODE_PERSISTENT;
	q->ready = true;
	if (q->reply_fd < REPLY_FD) {
		override(l, q, "reply_fd", true);
		q->reply_fd = REPLY_FD;
	}
}

char *conf_function_lack(const struct conf_queue *q, const char *said)
{
	const struct language *language = language_of(q->function);
	struct buffer b = {0};

	if (language == NULL || q->handler == NULL || strstr(said, language->lack) == NULL)
		return NULL;
	buffer_format(&b, "install it for %s, or name the program that has it: interpreter = [\"...\"]", q->handler[0]);
	if (language->modules != NULL)
		buffer_format(&b, ", or its folder: env = [\"%s=...\"]", language->modules);
	return b.data;
}

/* ---- checks ---- */

static void check_form(struct conf_loading *l, const struct conf_queue *q, const struct language *language)
{
	const struct conf_origin *where = conf_queue_origin(q, "function");

	if (q->function[0] != '/')
		conf_error(l, where, "function: expected \"/DIR/FILE\" or \"/DIR/FILE:FUNCTION\", not \"%s\"",
		    q->function);
	else if (language == NULL)
		conf_error(l, where,
		    "function: no runner for \"%s\": expected a file whose name ends with .py, .rb, .js, .mjs, "
		    ".cjs, .php, .pl or .pm; quredis-function(7) says how to name a module", q->function);
	else if (q->isolate && !language->forks)
		conf_error(l, conf_queue_origin(q, "isolate"),
		    "queue %s: isolate: Node cannot fork; use a handler with mode = \"exec\", which is a new process "
		    "for each message", conf_shown_name(q));
}

/* Warns only of keys that the queue itself sets, since `defaults` may serve functions of other queues. */
static void check_without(struct conf_loading *l, const struct conf_queue *q)
{
	static const char *const keys[] = { "isolate", "message", "interpreter" };

	for (size_t i = 0; i < nitems(keys); i++)
		if (conf_given_in_queue(l, q, keys[i]))
			conf_warning(l, conf_queue_origin(q, keys[i]), "queue %s: %s has no effect without function",
			    conf_shown_name(q), keys[i]);
}

void conf_check_function(struct conf_loading *l, const struct conf_queue *q)
{
	if (q->function == NULL) {
		check_without(l, q);
		return;
	}
	check_form(l, q, language_of(q->function));
	if (conf_given(conf_queue_origin(q, "handler")))
		conf_error(l, conf_queue_origin(q, "function"),
		    "queue %s has a function and a handler: expected one of them", conf_shown_name(q));
}

/* Releases may share a file by hard links, so its path counts; and an archive may give it an old time, so that of the
 * inode counts. */
static bool add_file(uint64_t *hash, const char *path)
{
	char *real = realpath(path, NULL);
	struct stat st;
	char text[128];

	if (real == NULL || stat(real, &st) == -1) {
		free(real);
		return false;
	}
	snprintf(text, sizeof(text), "%ju:%ju:%jd:%jd.%09ld", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino,
	    (intmax_t)st.st_size, (intmax_t)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
	*hash = hash_text(hash_text(*hash, real), text);
	free(real);
	return true;
}

/* Arguments that are no script may be files that the handler writes. */
static bool add_command(uint64_t *hash, const struct conf_queue *q)
{
	struct conf_script script;
	bool known = add_file(hash, q->handler[0]);
	char *path;

	if (!known || !conf_find_script(q->handler, &script))
		return known;
	path = conf_run_path(q, script.path);
	known = add_file(hash, path);
	free(path);
	return known;
}

static void note_flaw(void *arg, const struct conf_flaw *flaw)
{
	(void)flaw;
	*(bool *)arg = true;
}

uint64_t conf_handler_files(const struct conf_queue *q)
{
	uint64_t hash = HASH_EMPTY;
	bool known, flawed = false;
	char *file;

	if (q->mode != CONF_MODE_PERSISTENT)
		return 0;
	if (q->ready)
		conf_program_check(q, CONF_INHERITS_THIS, note_flaw, &flawed);
	if (flawed)
		return hash_text(hash, "flawed");
	if (q->function == NULL) {
		known = add_command(&hash, q);
	} else {
		file = alloc_copy(q->function, file_length(q->function));
		known = add_file(&hash, file);
		free(file);
	}
	return known ? hash : 0;
}

const char *conf_handler_name(const struct conf_queue *q)
{
	return q->function != NULL ? q->function : q->handler == NULL ? NULL : q->handler[0];
}

void conf_function_parts(const struct conf_queue *q, struct conf_function_parts *parts)
{
	*parts = (struct conf_function_parts){
		.file = alloc_copy(q->function, file_length(q->function)),
		.runner = q->handler[q->interpreter == NULL ? 1 : count(q->interpreter)],
		.package = language_of(q->function)->package,
	};
}

const char *conf_handler_path(const struct conf_queue *q, const char *inherited)
{
	const char *path = q->run_as.switch_user || q->run_as.login != NULL || inherited == NULL ? DEFAULT_PATH
	    : inherited;

	for (char **var = q->env; var != NULL && *var != NULL; var++)
		if (strncmp(*var, "PATH=", 5) == 0)
			path = *var + 5;
		else if (strcmp(*var, "PATH") == 0 && inherited != NULL)
			path = inherited;
	return path;
}
