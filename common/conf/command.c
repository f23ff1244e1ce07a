/*
 * Judges whether the user of a queue can execute the handler, by the files that its command line names: they must
 * exist, and program.c judges each of them. quredisd -t, a start, a reload and quredis doctor show these judgements,
 * and a worker asks for them if a handler does not start.
 */
#include <sys/stat.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/base.h"
#include "common/conf/program.h"

/* Of one that is missing. remedy: NULL: another name. Frees remedy. */
static char *advice_of_missing(const char *path, char *remedy)
{
	char *near = remedy == NULL ? conf_similar_path(path) : NULL, *advice;

	if (remedy != NULL)
		return remedy;
	advice = near == NULL ? alloc_string("put it there, or correct the path")
	    : alloc_format("did you mean %s?", near);
	free(near);
	return advice;
}

static void report_flaw(const struct conf_judgement *j, const char *key, const char *path, struct conf_file_flaw *flaw)
{
	if (flaw->text != NULL)
		j->found(j->arg, &(struct conf_flaw){ key, path, flaw->text, flaw->advice, false });
	free(flaw->text);
	free(flaw->advice);
}

/* check_programs.c reports a path that is not absolute. remedy: if it is missing; NULL: another name. Frees it. */
static void judge_named(const struct conf_judgement *j, const char *key, const char *path, unsigned uses, char *remedy)
{
	const struct conf_file f = { j, path, uses, 0, NULL, key };
	const char *missing = path[0] == '/' ? conf_file_why_missing(path) : NULL;
	struct conf_file_flaw flaw = {0};

	if (missing != NULL) {
		conf_deny(&flaw, alloc_format("it %s", missing), advice_of_missing(path, remedy));
	} else {
		free(remedy);
		if (path[0] == '/')
			conf_file_is_good(&f, &flaw);
	}
	report_flaw(j, key, path, &flaw);
}

static void judge_program(const struct conf_judgement *j, const char *key, char *const *argv, char *remedy)
{
	const struct conf_file f = { j, argv[0], USE_EXEC, 0, NULL, key };
	const struct conf_words words = { argv, "the command line", key };
	struct conf_file_flaw flaw = {0};

	judge_named(j, key, argv[0], USE_EXEC, remedy);
	if (argv[0][0] == '/' && conf_is_env(argv[0]) && !conf_file_has_program_of_env(&f, &words, &flaw))
		report_flaw(j, key, argv[0], &flaw);
}

/* judge_program() has judged a file that env executes. */
static void judge_script(const struct conf_judgement *j, const char *key, char *const *argv)
{
	struct conf_script script;
	struct stat st;
	char *path, *main;

	if (!conf_find_script(argv, &script) || script.may == X_OK)
		return;
	path = conf_run_path(j->q, script.path);
	if (script.main == NULL || stat(path, &st) == -1 || !S_ISDIR(st.st_mode)) {
		judge_named(j, key, path, USE_READ, NULL);
	} else if (script.main[0] != '\0') {
		main = alloc_format("%s/%s", path, script.main);
		judge_named(j, key, main, USE_READ, NULL);
		free(main);
	}
	free(path);
}

static void judge_command(const struct conf_judgement *j, const char *key, char *const *argv)
{
	judge_program(j, key, argv, NULL);
	judge_script(j, key, argv);
}

void conf_command_check(const struct conf_queue *q, const char *key, char *const *argv, enum conf_inherits inherits,
    conf_flaw_found *found, void *arg)
{
	const struct conf_judgement j = { q, inherits, found, arg };

	judge_command(&j, key, argv);
}

static void judge_function(const struct conf_judgement *j)
{
	const char *key = j->q->interpreter != NULL ? "interpreter" : "function";
	struct conf_function_parts parts;

	conf_function_parts(j->q, &parts);
	judge_program(j, key, j->q->handler, j->q->interpreter != NULL ? NULL
	    : alloc_format("install it (Debian: apt install %s), or set interpreter", parts.package));
	judge_named(j, "function", parts.runner, USE_READ, alloc_string("make install copies it"));
	judge_named(j, "function", parts.file, USE_READ, NULL);
	free(parts.file);
}

void conf_program_check(const struct conf_queue *q, enum conf_inherits inherits, conf_flaw_found *found, void *arg)
{
	const struct conf_judgement j = { q, inherits, found, arg };

	if (q->handler == NULL)
		return;
	if (q->run_as.directory != NULL)
		judge_named(&j, "run_as.directory", q->run_as.directory, USE_ENTER, NULL);
	if (conf_queue_origin(q, "handler")->kind == CONF_ORIGIN_DERIVED)
		judge_function(&j);
	else
		judge_command(&j, "handler", q->handler);
}
