#ifndef ADMIN_CLI_OPTIONS_H
#define ADMIN_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Options may stand before and after the command. Options of single commands are a set of bits: the row of a command in the
 * table (admin/commands/table.c) says which ones it takes.
 */
#define OPTION_LINES	0x0001u
#define OPTION_NUL	0x0002u
#define OPTION_DELAY	0x0004u
#define OPTION_ID	0x0008u
#define OPTION_COUNT	0x0010u
#define OPTION_CLASS	0x0020u
#define OPTION_ALL	0x0040u
#define OPTION_FROM	0x0080u
#define OPTION_FAST	0x0100u
#define OPTION_NO_WAIT	0x0200u
#define OPTION_OFF	0x0400u
#define OPTION_TTL	0x0800u
#define OPTION_FIX	0x1000u
#define OPTION_ONCE	0x2000u
#define OPTION_WAIT	0x4000u
#define OPTION_WAIT_TIMEOUT	0x8000u
#define OPTION_CANARY	0x100000u
#define OPTION_RATE	0x200000u
#define OPTION_FAILURES	0x400000u
#define OPTION_NAGIOS	0x10000u
#define OPTION_SINCE	0x20000u
#define OPTION_CAUSE	0x800000u
#define OPTION_TEXT	0x1000000u
#define OPTION_EXIT	0x2000000u
#define OPTION_WORKER	0x4000000u
#define OPTION_UNTIL	0x8000000u
/* dead_letters/filter.h */
#define OPTION_FILTER	(OPTION_CLASS | OPTION_CAUSE | OPTION_TEXT | OPTION_EXIT | OPTION_WORKER | OPTION_SINCE | OPTION_UNTIL)
#define OPTION_ANEW	0x80000u
#define OPTION_PACE	(OPTION_CANARY | OPTION_RATE | OPTION_FAILURES)
#define OPTION_BIND	0x10000000u
#define OPTION_WEB_PORT	0x20000000u
#define OPTION_BEFORE	0x40000000u
#define OPTION_SEARCH	0x80000000u
#define OPTION_AT	0x40000u

struct options {			/* strings point into argv */
	const char *conf_path, *host, *url;
	int64_t port;			/* 0: not given */
	bool json, yes, dry_run, force, help, version;

	const char *id, *from, *rate, *bind, *before, *at;
	const char *class, *cause, *text, *exit_code, *worker, *since, *until;	/* which dead letters; since: also which minutes of stats */
	int64_t count, max_failures, web_port;	/* -1: not given */
	int64_t delay_ms, ttl_ms, wait_timeout_ms;	/* -1: not given */
	int64_t search;			/* -1: not given */
	int64_t wait, canary;		/* 0: without a number; wait -1: not given */
	bool lines, nul, all, fast, no_wait, off, fix, nagios, anew, once;

	unsigned given;			/* OPTION_ bits of the options on the line */
	char **operands;		/* the words that are not options; owned, NULL at the end */
	size_t noperands;
};

struct option_spec {
	int letter;			/* short option; above 255: none */
	const char *name;		/* long option */
	const char *argument;		/* as help shows it; NULL: a flag */
	unsigned bit;			/* 0: global */
	const char *summary;
	enum { OPTION_IS_FLAG, OPTION_IS_STRING, OPTION_IS_NUMBER, OPTION_IS_DURATION, OPTION_MAY_HAVE_NUMBER /* --wait, --wait=3 */ } kind;
	size_t offset;			/* in struct options */
	int64_t min, max;		/* numbers */
};
extern const struct option_spec option_specs[];
extern const size_t option_specs_count;

struct options options_none(void);	/* none is given */
/* Returns -1 and prints one line if the line cannot be understood. Free in both cases. */
int options_parse(struct options *o, int argc, char **argv);
void options_free(struct options *o);

/* The option with this bit ("--limit"); never NULL for a bit of a table. */
const struct option_spec *option_of_bit(unsigned bit);

/* Lists the options whose bit is in bits; 0: the global ones. */
void options_print(unsigned bits, FILE *out);

#endif
