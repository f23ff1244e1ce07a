#ifndef SWEEPER_RESCUE_PULSE_H
#define SWEEPER_RESCUE_PULSE_H

struct pulse;
struct sweeper;

/* The last pulse on this connection; zeroed if it was refused. */
const struct pulse *pulse_last(const struct sweeper *s);

#endif
