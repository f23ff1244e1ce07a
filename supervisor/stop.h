#ifndef SUPERVISOR_STOP_H
#define SUPERVISOR_STOP_H

#include <stdbool.h>
#include <stdint.h>

struct master;

/*
 *	running -> finishing -> handing back -> confirming -> sweeper -> keeper -> gone
 *	           (a fast stop begins at handing back)
 */
enum stop_phase {
	STOP_NOT, STOP_FINISHING, STOP_HANDING_BACK, STOP_CONFIRMING, STOP_SWEEPER, STOP_KEEPER, STOP_GONE
};

struct stop {
	enum stop_phase phase;
	int64_t since_ms;	/* of the phase */
	int interrupts;		/* SIGINTs so far */
};

/* Again, and slower than what is under way: nothing. */
void stop_begin(struct master *m, bool fast, const char *reason, int64_t now_ms);

/* Goes on to the next phase where the last is over. */
void stop_step(struct master *m, int64_t now_ms);

#endif
