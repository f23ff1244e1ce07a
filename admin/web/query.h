#ifndef ADMIN_WEB_QUERY_H
#define ADMIN_WEB_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bsd/sys/queue.h>
#include <event2/keyvalq_struct.h>

#include "admin/cli/cli.h"

/* Parameters of a request: bits, so that a route can name those that it takes. */
#define WEB_QUEUE	0x01u
#define WEB_LIST	0x02u		/* list: one of all; or one of those of WEB_LIST_BACK or WEB_LIST_SINGLE */
#define WEB_ID		0x04u		/* may occur more than once */
#define WEB_LIMIT	0x08u
#define WEB_FILTER	0x10u		/* the options of OPTION_FILTER, by their names */
#define WEB_BEFORE	0x20u
#define WEB_ALL		0x40u
#define WEB_DRY_RUN	0x80u
#define WEB_SINCE	0x100u
#define WEB_PACE	0x200u		/* canary, rate, max_failures, anew */
#define WEB_ANEW	0x400u
#define WEB_TEXT	0x800u		/* text, search */
#define WEB_LIST_BACK	0x1000u		/* list: from which messages can go back into ingress */
#define WEB_LIST_SINGLE	0x2000u		/* list: from which single messages can be taken */
#define WEB_CANCEL	0x4000u		/* retry, worker */
#define WEB_STOP	0x8000u		/* stop */
#define WEB_SCHEDULE	0x10000u
#define WEB_FORCE	0x20000u

#define WEB_LIMIT_DEFAULT 50
#define WEB_LIMIT_MAX 1000

struct web_query {
	struct evkeyvalq pairs;		/* owns all texts */
	unsigned given;			/* bits */
	char *queue, *schedule, *list, *before, *since;	/* NULL: not given */
	char **ids;			/* the array is owned */
	size_t nids;
	int64_t limit;			/* WEB_LIMIT_DEFAULT if not given */
	bool all, dry_run, force;
	struct options options;		/* those that are parameters by their names */
};

/*
 * Reads the text behind the question mark (NULL: none). takes: which parameters it may have; needs: which it must have.
 * -1: *why is a new string with the error. web_query_free() is needed in both cases.
 */
int web_query_parse(struct web_query *q, const char *text, unsigned takes, unsigned needs, char **why);
void web_query_free(struct web_query *q);

#endif
