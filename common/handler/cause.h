#ifndef COMMON_HANDLER_CAUSE_H
#define COMMON_HANDLER_CAUSE_H

#include <stdbool.h>
#include <stdint.h>

struct handler_result;

/*
 * Why the breaker of a queue is open, in one word, since the scoreboard has no strings and a word is never torn. The
 * worker that opens the breaker, or whose probe failed last, writes it (worker/breaker.c). Master and sweeper make
 * texts of it. A word of another process may be damaged: then its texts say less, and nothing worse happens.
 */
#define HANDLER_CAUSE_NONE UINT64_C(0)

/* stage: of handler_stage_names; error: errno */
uint64_t handler_cause_unrunnable(const char *stage, int error);
/* The handler ended before its first answer. code: exit status, -1: none; signal 0: none */
uint64_t handler_cause_mute(int code, int signal);
/* The handler was READY, and ended before any message reached it. code, signal: as above */
uint64_t handler_cause_idle(int code, int signal);
/* The handler did not say READY. late: within start_timeout; otherwise it ended before, with code or signal as above */
uint64_t handler_cause_unready(bool late, int code, int signal);
/* So many different messages failed in a row. last: how the last of them ended; NULL: the handler lives, and its reply
 * said so */
uint64_t handler_cause_failures(unsigned messages, const struct handler_result *last);

#define HANDLER_CAUSE_SIZE 512
/*
 * A sentence. argv: the command line of the handler; NULL: not known. "its handler cannot be executed: execve
 * /opt/mail: No such file or directory". HANDLER_CAUSE_NONE: the sentence leaves open which of the causes it is.
 * Returns out.
 */
const char *handler_cause_text(uint64_t word, char *const *argv, char out[HANDLER_CAUSE_SIZE]);
/* no message was involved, so a process that is ready ends it */
bool handler_cause_is_of_start(uint64_t word);
bool handler_cause_has_words(uint64_t word);	/* a worker noted its last words, or the flaw of its files */
/* A few words, of a bounded number of different texts, for a label: "execve: No such file or directory", "failures",
 * "no answer". Returns out. */
const char *handler_cause_label(uint64_t word, char out[HANDLER_CAUSE_SIZE]);

#endif
