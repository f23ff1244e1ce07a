#ifndef ADMIN_WEB_QUERY_H
#define ADMIN_WEB_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parameters of a request: bits, so that a route can say which it takes. */
#define WEB_QUEUE	0x01u
#define WEB_LIST	0x02u
#define WEB_ID		0x04u		/* may be there more than once */
#define WEB_LIMIT	0x08u
#define WEB_CLASS	0x10u
#define WEB_BEFORE	0x20u
#define WEB_ALL		0x40u
#define WEB_DRY_RUN	0x80u
#define WEB_SINCE	0x100u

#define WEB_LIMIT_DEFAULT 50
#define WEB_LIMIT_MAX 1000

struct web_query {
	unsigned given;
	char *queue, *list, *class, *before;	/* NULL: not given */
	char **ids;
	size_t nids;
	int64_t limit;			/* WEB_LIMIT_DEFAULT if not given */
	int64_t since_ms;		/* -1: not given */
	bool all, dry_run;
};

/*
 * Reads what stands behind the question mark (NULL: nothing), of which takes may be there and needs must. -1: *why is
 * a new string that says what is wrong. Freed in both cases.
 */
int web_query_parse(struct web_query *q, const char *text, unsigned takes, unsigned needs, char **why);
void web_query_free(struct web_query *q);

#endif
