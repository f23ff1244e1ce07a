#ifndef COMMON_FACTS_FACTS_H
#define COMMON_FACTS_FACTS_H

#include "common/facts/counters.h"
#include "common/facts/exposition.h"

/*
 * The figures of a queue that are measured, not counted (those stand in counters.h), and the only list of them. The
 * program that measures a figure sets facts.n[FACT_id]. Its row, in table.h, makes the member of the report for writer
 * and readers, the samples of both sources of metrics, and the line of statsd.
 */
enum fact_scope {
	FACT_OF_QUEUE,		/* the sweeper that leads the queue measures it for all hosts: the report of health */
	/* each sweeper measures it for its host: the report of the node. A reader adds up the hosts */
	FACT_OF_HOST
};

enum fact_type {
	FACT_COUNT,
	FACT_SOME,		/* a count of which a report leaves out 0 */
	FACT_FLAG,		/* above 0: true */
	FACT_AGE,		/* ms; a report has seconds, with a fraction */
	FACT_PACE,		/* thousandths a minute; a report has a number with a fraction */
	FACT_LEFT		/* ms until something happens, from the time of the report */
};

/* Tables of commands. Each has a column for the counters and figures whose row names it, in the order of the rows. END:
 * behind a column that is no figure. */
enum fact_table {
	IN_LS = 1, IN_TOP = 2, IN_HEALTH = 4, IN_HEALTH_END = 8, IN_NODES = 16, IN_NODES_END = 32,
	IN_STATUS = 64, IN_STATUS_END = 128, IN_STATS = 256
};

#include "common/facts/table.h"

enum fact {
#define X(id, ...) FACT_##id,
	FACTS_TABLE(X)
#undef X
	FACTS
};

struct fact_words {
	enum fact_scope scope;
	enum fact_type type;
	const char *object, *key;	/* the member of the report is object.key, or key */
	enum metric metric;		/* METRIC_NONE: it has no sample */
	const char *label;		/* the last label of its sample; NULL: none */
	const char *listed;		/* its member in `quredis ls --json`, which measures it again; NULL: none */
	const char *title;		/* of its column; NULL: no table has one */
	const char *heading;		/* of its column in the console; NULL: the title */
	unsigned in;			/* the tables that have it: bits of enum fact_table */
	int yields;			/* its rank where the terminal is too narrow: YIELDS() */
	bool rare;			/* 0 as a rule: while all are 0, the column goes first */
	const char *statsd;		/* its gauge, "*" is the queue; an age in whole seconds. NULL: none */
	const char *text;		/* its meaning, for operators */
};
extern const struct fact_words facts_table[FACTS];

struct facts {
	int64_t n[FACTS];	/* -1: not known; no report, metric or table shows it */
};

struct facts facts_unknown(void);
void facts_add(struct facts *sum, const struct facts *host);	/* the counts of a host, as far as they are known */

int64_t facts_workers(const struct facts *f);	/* of a host, in all states */

/* ---- reports ---- */

struct json_t;
/* tables: only the figures of these, bits of enum fact_table; 0: all */
void facts_write(struct json_t *report, enum fact_scope scope, unsigned tables, const struct facts *f);
/* Any program may have written the report: a member of another type, or out of range, is not known. age_ms: since the
 * report was written */
void facts_read(struct facts *f, enum fact_scope scope, const struct json_t *report, int64_t age_ms);
void facts_read_listed(struct facts *f, const struct json_t *row);	/* a row of `quredis ls --json` */

/* ---- metrics ---- */

/* The figures of a queue on one page. Several rows may be about one, if no two have the same figure. */
struct facts_row {
	const char *node;			/* NULL: its samples have no such label */
	const char *queue;
	const struct facts *facts;		/* NULL: none */
	const struct queue_figures *counted;	/* NULL: none */
};

/*
 * Writes all metrics of a page, in the order of their table: for each the figures of the rows, and what `others` adds,
 * since it is about no queue, or has words of the page as its labels.
 */
void facts_page(struct buffer *out, enum metric_page page, const struct facts_row *rows, size_t n,
    void (*others)(void *arg, enum metric m), void *arg);

#endif
