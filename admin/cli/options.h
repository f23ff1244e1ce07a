#ifndef ADMIN_CLI_OPTIONS_H
#define ADMIN_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "admin/cli/colour.h"

/*
 * Options may stand before and after the command, but not behind an ID: producers choose those, and command.c refuses a
 * word there that reads as an option. Options of single commands are a set of bits: the row of a command in the table
 * (admin/commands/table.c) says which ones it takes.
 */
#define OPTION_BIT(n)	(UINT64_C(1) << (n))
#define OPTION_LINES	OPTION_BIT(0)
#define OPTION_NUL	OPTION_BIT(1)
#define OPTION_DELAY	OPTION_BIT(2)
#define OPTION_ID	OPTION_BIT(3)
#define OPTION_COUNT	OPTION_BIT(4)
#define OPTION_CLASS	OPTION_BIT(5)
#define OPTION_ALL	OPTION_BIT(6)
#define OPTION_FROM	OPTION_BIT(7)
#define OPTION_FAST	OPTION_BIT(8)
#define OPTION_NO_WAIT	OPTION_BIT(9)
#define OPTION_OFF	OPTION_BIT(10)
#define OPTION_TTL	OPTION_BIT(11)
#define OPTION_FIX	OPTION_BIT(12)
#define OPTION_ONCE	OPTION_BIT(13)
#define OPTION_WAIT	OPTION_BIT(14)
#define OPTION_WAIT_TIMEOUT	OPTION_BIT(15)
#define OPTION_CANARY	OPTION_BIT(16)
#define OPTION_RATE	OPTION_BIT(17)
#define OPTION_FAILURES	OPTION_BIT(18)
#define OPTION_NAGIOS	OPTION_BIT(19)
#define OPTION_SINCE	OPTION_BIT(20)
#define OPTION_CAUSE	OPTION_BIT(21)
#define OPTION_TEXT	OPTION_BIT(22)
#define OPTION_EXIT	OPTION_BIT(23)
#define OPTION_WORKER	OPTION_BIT(24)
#define OPTION_UNTIL	OPTION_BIT(25)
/* dead_letters/filter.h */
#define OPTION_FILTER	(OPTION_CLASS | OPTION_CAUSE | OPTION_TEXT | OPTION_EXIT | OPTION_WORKER | OPTION_ROOT | \
    OPTION_SINCE | OPTION_UNTIL)
#define OPTION_ANEW	OPTION_BIT(26)
#define OPTION_PACE	(OPTION_CANARY | OPTION_RATE | OPTION_FAILURES)
#define OPTION_BIND	OPTION_BIT(27)
#define OPTION_WEB_PORT	OPTION_BIT(28)
#define OPTION_BEFORE	OPTION_BIT(29)
#define OPTION_SEARCH	OPTION_BIT(30)
#define OPTION_AT	OPTION_BIT(31)
#define OPTION_VERBOSE	OPTION_BIT(32)
#define OPTION_SORT	OPTION_BIT(33)
#define OPTION_SKIP	OPTION_BIT(34)
#define OPTION_AGAIN	OPTION_BIT(35)
#define OPTION_ESCAPE	OPTION_BIT(36)
#define OPTION_FOREGROUND	OPTION_BIT(37)
#define OPTION_STOP	OPTION_BIT(38)
#define OPTION_LANG	OPTION_BIT(39)
#define OPTION_URGENT	OPTION_BIT(40)
#define OPTION_UNIQUE	OPTION_BIT(41)
#define OPTION_FOR	OPTION_BIT(42)
#define OPTION_NEXT	OPTION_BIT(43)
#define OPTION_ROOT	OPTION_BIT(44)
/* a push that needs more than LPUSH */
#define OPTION_NOT_LPUSH (OPTION_DELAY | OPTION_AT | OPTION_TTL | OPTION_WAIT | OPTION_URGENT | OPTION_UNIQUE)

#define OPTIONS_MAX 64		/* rows of option_specs */

struct options {			/* strings point into argv */
	const char *conf_path, *socket, *host, *url;
	int64_t port;			/* 0: not given */
	bool json, yes, dry_run, force, help, version;
	enum colour_choice colour;

	const char *id, *from, *rate, *bind, *before, *at, *sort, *stop, *lang, *unique;
	/* which dead letters; since: also which minutes of stats */
	const char *class, *cause, *text, *exit_code, *worker, *root, *since, *until;
	int64_t count, max_failures, web_port, next;	/* -1: not given */
	int64_t delay_ms, ttl_ms, wait_timeout_ms, for_ms;	/* -1: not given */
	int64_t search;			/* -1: not given */
	int64_t wait, canary;		/* 0: without a number; wait -1: not given */
	bool lines, nul, all, fast, no_wait, off, fix, nagios, anew, once, verbose, skip, again, escape, foreground,
	    urgent;

	char unknown[64];		/* an option that does not exist; "": there is none */
	uint64_t given;			/* OPTION_ bits of the options on the line */
	bool named[OPTIONS_MAX];	/* of each row of option_specs: it is on the line */
	const char *last;		/* the word of the last option; NULL: there is none */
	size_t before_last;		/* operands that stand before it */
	char **operands;		/* the words that are not options; owned, NULL at the end */
	size_t noperands;
};

struct buffer;
struct option_spec {
	int letter;			/* short option; above 255: none */
	const char *name;		/* long option */
	const char *argument;		/* as help shows it; NULL: a flag */
	uint64_t bit;			/* 0: global */
	const char *summary;
	enum {
		OPTION_IS_FLAG, OPTION_IS_STRING, OPTION_IS_NUMBER, OPTION_IS_DURATION, OPTION_IS_COLOUR,
		OPTION_MAY_HAVE_NUMBER,	/* --wait, --wait=3 */
	} kind;
	size_t offset;			/* in struct options */
	int64_t min, max;		/* numbers */
	const char *wanted;		/* strings: what the value is, with an example */
};
extern const struct option_spec option_specs[];
extern const size_t option_specs_count;

struct options options_none(void);	/* none is given */
/*
 * Returns -1 if the line cannot be understood: it has an unknown option, and the operands are known all the same; or
 * the reason was printed, and `unknown` is empty. Free in all cases.
 */
int options_parse(struct options *o, int argc, char **argv);
void options_free(struct options *o);

/* The option with this bit ("--limit"); never NULL for a bit of a table. */
const struct option_spec *option_of_bit(uint64_t bit);

/* The options with these bits that were given, strings and numbers, as {"class": "HandlerExit", "canary": 50}: a new
 * object. NULL: one is not UTF-8 */
struct json_t *options_to_json(const struct options *o, uint64_t bits);
/* The words of such an object for a shell, " --class HandlerExit --canary=50": a new string. NULL: it has other
 * members */
char *options_to_words(const struct json_t *json, uint64_t bits);

/*
 * Reads such an object, which any program may have written, into o. The strings point into it. -1: it has other
 * members, or a value that the command line would refuse
 */
int options_from_json(struct options *o, const struct json_t *json, uint64_t bits);

/* a word for a shell; plain words stay as they are */
void options_append_quoted(struct buffer *words, const char *text);

/* Lists the options whose bit is in bits; 0: the global ones. */
void options_print(uint64_t bits, FILE *out);

#endif
