#ifndef COMMON_CONF_PROGRAM_H
#define COMMON_CONF_PROGRAM_H

/* A handler needs this file: program.c judges one, and command.c asks it for each file of a command line. */
#include "common/conf/conf.h"
#include "common/conf/load.h"

/* How the handler uses a file. */
#define USE_EXEC 1u		/* by execve(2) */
#define USE_SEARCH 2u		/* by execvp(3), which gives a file that begins with no #! to /bin/sh */
#define USE_READ 4u		/* by an interpreter */
#define USE_ENTER 8u		/* as its directory */

struct conf_judgement {
	const struct conf_queue *q;
	enum conf_inherits inherits;
	conf_flaw_found *found;
	void *arg;
};

struct conf_file {
	const struct conf_judgement *j;
	const char *path;	/* absolute */
	unsigned uses;
	int depth;		/* interpreters on the way to it, since a process has executed a file */
	const struct conf_file *from;	/* NULL: the command line names it */
	const char *key;	/* if from is NULL: the key of the command line */
};

struct conf_file_flaw {
	char *text, *advice;	/* new strings */
};

/* Sets the flaw. Returns false, for the ends of checks. */
bool conf_deny(struct conf_file_flaw *flaw, char *text, char *advice);
/* Why nothing is there. Static; NULL: a file is there, or it is not known, as in a directory that is closed to this
 * process. */
const char *conf_file_why_missing(const char *path);
/* True also if nothing can be known of the file, or nothing is there. */
bool conf_file_is_good(const struct conf_file *f, struct conf_file_flaw *flaw);

/* A command line of env(1): of a first line, or of the configuration. */
struct conf_words {
	char *const *argv;
	const char *what;	/* "its first line" */
	const char *where;	/* "the first line of /opt/mail" */
};
/* f: names env */
bool conf_file_has_program_of_env(const struct conf_file *f, const struct conf_words *w, struct conf_file_flaw *flaw);

#endif
