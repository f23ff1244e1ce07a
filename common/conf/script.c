/*
 * Finds the file that a command line gives to an interpreter, also behind env(1). An interpreter that cannot open its
 * script exits with a status, as any handler does, so the script is looked at before: when the configuration is loaded,
 * and by the child before exec. A wrong guess would stop a queue whose handler is in order: where it is not certain
 * which file it is, none is found. Async-signal-safe, but for the functions at the end.
 */
#include <sys/stat.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "common/base/base.h"
#include "common/conf/conf.h"
#include "common/conf/load.h"

/*
 * Programs that run the file of their first argument that is no option. flags: the letters of options that take no
 * value and do not give the program text in another way. valued: of those whose value follows, in the same word or in
 * the next one. Behind any other option the script is not known.
 */
static const struct interpreter {
	const char *name;	/* without its version: python3.11 is python */
	const char *flags, *valued;
	const char *main;	/* the file that it runs in a directory; NULL: none; "": others may be it */
} INTERPRETERS[] = {
	{ "bash", "efuvx", "", NULL }, { "dash", "efuvx", "", NULL }, { "ksh", "efuvx", "", NULL },
	{ "lua", "EW", "l", NULL }, { "node", "", "r", "" }, { "nodejs", "", "r", "" },
	{ "perl", "TWUtw", "I", NULL }, { "php", "n", "cd", NULL }, { "pypy", "BEOqsSuv", "WX", "__main__.py" },
	{ "python", "BEIOPqsSuv", "WX", "__main__.py" }, { "ruby", "vw", "Ir", NULL },
	{ "sh", "efuvx", "", NULL }, { "tclsh", "", "", NULL }, { "zsh", "efuvx", "", NULL },
};

#define ENV_DEFAULT_PATH "/bin:/usr/bin"	/* of execvp(3) if env has removed PATH */
#define BLANKS " \t\n\v\f\r"	/* between the words of env -S */
#define WORDS_MAX 32		/* of a command line behind env; the script of a longer one is not known */

/* The command line that env runs. A word is a part of an argument, or of `room`. */
struct command {
	const char *words[WORDS_MAX + 1];	/* NULL at the end */
	size_t n;
	char room[CONF_SCRIPT_MAX];		/* the words of the argument of env -S */
};

static const char *name_of(const char *program)
{
	const char *slash = strrchr(program, '/');

	return slash == NULL ? program : slash + 1;
}

static const struct interpreter *interpreter_of(const char *program)
{
	const char *name = name_of(program);
	size_t len = strlen(name);

	while (len > 0 && strchr("0123456789.", name[len - 1]) != NULL)
		len--;
	for (size_t i = 0; i < nitems(INTERPRETERS); i++)
		if (strlen(INTERPRETERS[i].name) == len && strncmp(INTERPRETERS[i].name, name, len) == 0)
			return &INTERPRETERS[i];
	return NULL;
}

/* The words that an option takes: 0: it is none, or not a known one. */
static size_t option_words(const struct interpreter *i, const char *word)
{
	if (word[0] != '-' || word[1] == '\0')
		return 0;
	if (strchr(i->valued, word[1]) != NULL)
		return word[2] == '\0' ? 2 : 1;
	return strspn(word + 1, i->flags) == strlen(word + 1) ? 1 : 0;
}

/* A name without a slash is looked for in places that differ between interpreters. */
static const char *script_of(const struct interpreter *i, const char *const *words)
{
	size_t n;

	for (words++; *words != NULL && (n = option_words(i, *words)) > 0; words += n)
		if (n == 2 && words[1] == NULL)
			return NULL;
	return *words != NULL && (*words)[0] != '-' && strchr(*words, '/') != NULL ? *words : NULL;
}

/* ---- behind env ---- */

static bool add_word(struct command *c, const char *word)
{
	if (c->n == WORDS_MAX)
		return false;
	c->words[c->n++] = word;
	return true;
}

/* Splits as env -S does; false: the text has quotes, escapes, variables or comments. */
static bool split_words(struct command *c, const char *text)
{
	char *p = c->room;

	if (c->room[0] != '\0' || strpbrk(text, "\"'\\$#") != NULL ||
	    strlcpy(c->room, text, sizeof(c->room)) >= sizeof(c->room))
		return false;
	for (p += strspn(p, BLANKS); *p != '\0'; p += strspn(p, BLANKS)) {
		if (!add_word(c, p))
			return false;
		p += strcspn(p, BLANKS);
		if (*p != '\0')
			*p++ = '\0';
	}
	return true;
}

/* The words behind env, with the argument of -S in its words. */
static bool expand_words(struct command *c, char *const *argv)
{
	for (argv++; *argv != NULL; argv++) {
		const char *word = *argv, *split = NULL;

		if (c->n == 0 && strcmp(word, "-S") == 0 && argv[1] != NULL)
			split = *++argv;
		else if (c->n == 0 && strncmp(word, "-S", 2) == 0 && word[2] != '\0')
			split = word + 2;
		else if (c->n == 0 && strncmp(word, "--split-string=", 15) == 0)
			split = word + 15;
		if (split == NULL ? !add_word(c, word) : !split_words(c, split))
			return false;
	}
	c->words[c->n] = NULL;
	return true;
}

/* Takes the options that do not change where a file is found, and assignments. Returns the word that is the program; of
 * the NULL at the end: env runs none. NULL: not known. path: the PATH that they set; not changed if they set none */
static const char *const *program_of(const struct command *c, const char **path)
{
	const char *const *w = c->words;

	for (; *w != NULL && ((*w)[0] == '-' || strchr(*w, '=') != NULL); w++)
		if (strcmp(*w, "-i") == 0 || strcmp(*w, "-") == 0 || strcmp(*w, "--ignore-environment") == 0 ||
		    strcmp(*w, "--unset=PATH") == 0)
			*path = ENV_DEFAULT_PATH;
		else if (strcmp(*w, "-u") == 0 && w[1] != NULL)
			*path = strcmp(*++w, "PATH") == 0 ? ENV_DEFAULT_PATH : *path;
		else if (strncmp(*w, "PATH=", 5) == 0)
			*path = *w + 5;
		else if (((*w)[0] == '-' && strncmp(*w, "--unset=", 8) != 0) || (*w)[0] == '=')
			return NULL;
	return w;
}

static bool set_script(struct conf_script *s, const struct interpreter *i, const char *path)
{
	s->may = i == NULL ? X_OK : R_OK;
	s->main = i == NULL ? NULL : i->main;
	return path != NULL && strlcpy(s->path, path, sizeof(s->path)) < sizeof(s->path);
}

static bool find_script(char *const *argv, struct conf_script *s)
{
	const struct interpreter *i = interpreter_of(argv[0]);
	struct command c = { .n = 0 };
	const char *const *program, *path = NULL;

	if (i != NULL)
		return set_script(s, i, script_of(i, (const char *const *)argv));
	if (strcmp(name_of(argv[0]), "env") != 0 || !expand_words(&c, argv) ||
	    (program = program_of(&c, &path)) == NULL || *program == NULL || strcmp(name_of(*program), "env") == 0)
		return false;
	i = interpreter_of(*program);
	if (i != NULL)
		return set_script(s, i, script_of(i, program));
	return strchr(*program, '/') != NULL && set_script(s, NULL, *program);
}

/* Node may run mail.js, or a file of a directory, for "mail". */
bool conf_find_script(char *const *argv, struct conf_script *s)
{
	return find_script(argv, s) && (s->main == NULL || s->main[0] != '\0' || strchr(name_of(s->path), '.') != NULL);
}

bool conf_runs_by_script(const char *head, size_t len, const char *path)
{
	char line[CONF_SCRIPT_MAX], own[CONF_SCRIPT_MAX], *argument, *argv[4] = { line, NULL, NULL, NULL };
	struct conf_script s;

	if (len < 3 || len >= sizeof(line) || head[0] != '#' || head[1] != '!' || memchr(head, '\n', len) == NULL ||
	    strlcpy(own, path, sizeof(own)) >= sizeof(own))
		return false;
	memcpy(line, head + 2, len - 2);
	line[len - 2] = '\0';
	line[strcspn(line, "\n")] = '\0';
	argv[0] = line + strspn(line, " \t");
	argument = argv[0] + strcspn(argv[0], " \t");
	if (*argument != '\0')
		*argument++ = '\0';
	argument += strspn(argument, " \t");
	argv[1] = *argument == '\0' ? own : argument;
	argv[2] = *argument == '\0' ? NULL : own;
	return find_script(argv, &s) && strcmp(s.path, path) == 0;
}

/* ---- for checks ---- */

char *conf_run_path(const struct conf_queue *q, const char *path)
{
	const char *dir = q->run_as.directory;

	return path[0] == '/' ? alloc_string(path) : alloc_format("%s/%s", dir == NULL ? "" : dir, path);
}

/* busybox is many commands in one program, and the name decides which one it is. */
bool conf_is_env(const char *path)
{
	char *real = realpath(path, NULL);
	struct stat st, env;
	bool is = real != NULL && stat(real, &st) == 0 && stat("/usr/bin/env", &env) == 0 && env.st_dev == st.st_dev &&
	    env.st_ino == st.st_ino &&
	    (strcmp(name_of(path), "env") == 0 || (strcmp(name_of(real), "env") == 0 && st.st_nlink == 1));

	free(real);
	return is;
}

bool conf_env_runs_nothing(char *const *argv)
{
	struct command c = { .n = 0 };
	const char *path = NULL, *const *program;

	return expand_words(&c, argv) && (program = program_of(&c, &path)) != NULL && *program == NULL;
}

bool conf_env_find(char *const *argv, struct conf_env_command *e)
{
	struct command c = { .n = 0 };
	const char *path = NULL, *const *program;

	if (!expand_words(&c, argv) || (program = program_of(&c, &path)) == NULL || *program == NULL)
		return false;
	*e = (struct conf_env_command){ alloc_string(*program), path == NULL ? NULL : alloc_string(path) };
	return true;
}
