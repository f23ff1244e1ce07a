#ifndef SUPERVISOR_STOP_H
#define SUPERVISOR_STOP_H

#include <stdbool.h>
#include <stdint.h>

struct master;

/*
 * The phases of a stop. Only later ones follow, and each ends after a limited time, but for KEEPER: it lasts while the
 * embedded Redis has acknowledged what it cannot write to its file, until a fast order gives that up:
 *
 *	NOT -> FINISHING -> HANDING_BACK -> CONFIRMING -> SWEEPER -> KEEPER -> GONE
 *
 * A fast stop begins at HANDING_BACK. FINISHING goes on to CONFIRMING if all workers ended in time.
 */
enum stop_phase {
	STOP_NOT, STOP_FINISHING, STOP_HANDING_BACK, STOP_CONFIRMING, STOP_SWEEPER, STOP_KEEPER, STOP_GONE
};

struct stop {
	enum stop_phase phase;
	int64_t since_ms;	/* of the phase */
	int interrupts;		/* SIGINTs so far; only ever rises */
};

/* Begins a stop, or makes a stop that has begun a fast one; fast, while the keeper waits for room: gives up what is not
 * in the file. */
void stop_begin(struct master *m, bool fast, const char *reason, int64_t now_ms);
void stop_interrupt(struct master *m, int64_t now_ms);	/* SIGINT: the second one makes it fast */

/* Enters the next phase if the present one is over. Returns when to call again; INT64_MAX: after the next event. */
int64_t stop_step(struct master *m, int64_t now_ms);

#endif
