#ifndef ADMIN_OPERATIONS_PACED_H
#define ADMIN_OPERATIONS_PACED_H

#include "admin/operations/failures.h"
#include "admin/operations/selection.h"
#include "admin/operations/redriven.h"

/* How gently an operation moves messages back: --canary, --rate and --max-failures. */
struct paced {
	struct selection *selection;
	struct progress *progress;
	struct redriven redriven;
	struct failures failures;	/* why messages failed again; read at the end */
	double per_ms;
	char rate[32];			/* "30/s" */
	int64_t canary, most_failures;
	bool settled;			/* at the end no message of the queue waited, was delayed or in flight */
	bool stopped;			/* too many failed again: the operation is over */
};

/* Reads the options. -1: one of them is wrong */
int paced_read(struct admin *a, struct paced *p);
/* ", 20 first, then at most 30/s" for questions; a new string */
char *paced_words(const struct paced *p);
/* Moves all back, or as many as the pace and interrupt_asked() allow. -1: error, or too many failed again
 * (EX_DATAERR) */
int paced_run(struct admin *a, struct paced *p);
/* Writes the pace into o in one spelling: with its rate, without zeros. o->rate lives as long as p */
void paced_spell(const struct paced *p, struct options *o);
void paced_free(struct paced *p);

#endif
