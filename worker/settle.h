#ifndef WORKER_SETTLE_H
#define WORKER_SETTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/conf/conf.h"
#include "common/handler/handler.h"
#include "common/queue/queue.h"

#include "worker/tray.h"

struct worker;

/* Owner: settle.c. The data that a move other than DONE needs besides the message. */
/* A move that pushes what a handler emitted needs keys of others, and Redis has refused one without its name. */
enum emit_doubt {
	EMIT_DOUBT_NONE,
	EMIT_DOUBT_OWN,		/* the next request, or the unanswered one, asks for the own keys */
	EMIT_DOUBT_TARGET,	/* Redis allows these: what it refuses now is a target */
};

struct outcome {
	/* the wrapper changes: RETRY, PUT_OFF, HOLD, HAND_BACK if the message does not go back unchanged, ASIDE in
	 * place of a RETRY */
	bool rewritten;
	struct buffer line;		/* if rewritten: the new wrapper; empty in a shared queue */
	struct queue_note note;		/* the new note of the message; text "": none */
	int64_t delay_ms;		/* RETRY, PUT_OFF, HOLD */
	/* CLOCK_MONOTONIC: the end of the hold that its handler asked for, on the scoreboard; 0: it asked for none */
	int64_t hold_until_ms;
	bool last;			/* HAND_BACK: to the push end of ingress */
	/* ESCAPE, ASIDE; its strings are static, belong to conf, or are the three below */
	struct record record;
	char error_class[HANDLER_CLASS_MAX + 1];
	char error_message[320];	/* also HOLD: its reason */
	struct buffer stderr_tail;	/* also DONE, with emitted */
	struct handler_emissions *emitted;	/* DONE: pushed with the acknowledgement; owned. NULL: nothing */
	enum emit_doubt doubt;		/* emitted */
	int code;			/* emitted: the exit status of the handler; -1: it runs on */
};

#define SETTLE_HELD "HandlerHold"		/* stands for a class where a message that waits says why */

struct failure {			/* why a message is not done */
	enum conf_outcome verdict;	/* FAIL, RETRY, ESCAPE */
	/* never NULL: the same in the log, the wrapper, the record, the counters and the scoreboard */
	const char *class;
	char named[HANDLER_CLASS_MAX + 1];	/* the class that the handler named, if it did */
	char text[320];
	size_t verb_len;		/* bytes of text that repeat the verb of a reply, before its reason */
	/*
	 * The handler's own: the reason of its reply, or the last line of its stderr. Not NUL-terminated; points into
	 * result or the reply, valid as long as these.
	 */
	const char *words;
	size_t words_len;		/* 0: it said nothing */
	int64_t delay_ms;		/* RETRY: -1: by back-off. HOLD: as handler_hold_ms() takes it */
	bool hold;			/* the handler asks that no host starts a message of the queue before */
	/* how the handler ended; NULL: it still runs (a persistent handler answered) */
	const struct handler_result *result;
	bool mute;			/* a persistent handler ended without any answer */
};
/* Notes the last line of a handler that has ended, for the reason of an open breaker. stderr_tail: the end of its
 * stderr */
void settle_last_words(struct worker *w, const char *stderr_tail, size_t len, int64_t now_ms);
void settle_done(struct worker *w, struct place p, int64_t duration_ms);
/* Takes the contents of r->emitted. */
void settle_emitted(struct worker *w, struct place p, const struct handler_result *r);
/* The message has left its tray; if its handler asked for a hold, Redis knows about that, or never will. */
void settle_hold_answered(struct worker *w, struct outcome *o);
void settle_pushed(struct worker *w, struct place p);	/* Redis has pushed what it emitted */
void settle_failed(struct worker *w, struct place p, const struct failure *f, int64_t now_ms);
/* Opens the breaker. cause: the same as stage and error, for the scoreboard (common/handler/cause.h) */
void settle_unrunnable(struct worker *w, uint64_t cause, const char *stage, const char *error, int64_t now_ms);
/* The same for a handler that was not READY. works_elsewhere: another worker has one that is, so the breaker stays as
 * it is */
void settle_unready(struct worker *w, uint64_t cause, bool works_elsewhere, const char *stage, const char *error,
    int64_t now_ms);
/* Opens the breaker, too, or keeps it open: a handler has read its job and ended before its first answer, after
 * lived_ms. The next probe follows soon. */
void settle_mute(struct worker *w, uint64_t cause, int64_t lived_ms, int64_t now_ms);
/* result: how its run ended; NULL: it never ran */
void settle_escape(struct worker *w, struct place p, const char *class, const char *message,
    const struct handler_result *result);
/* true: its lines cannot be read, so it escapes; the job of w->starter is this message */
bool settle_unreadable(struct worker *w, struct place p);
void settle_expired(struct worker *w, struct place p, const char *message);
/* FRESH: as SOLO, and in a new process. LAST: as SOLO, but to the push end of ingress, behind all others: different
 * messages test the handler */
enum settle_back { SETTLE_AS_IT_WAS, SETTLE_REDELIVERED, SETTLE_SOLO, SETTLE_FRESH, SETTLE_LAST };
void settle_hand_back(struct worker *w, struct place p, enum settle_back how);
/* The message did not run and must not run yet: it moves to delayed. Not for a shared queue, which has no delayed
 * set. */
void settle_put_off(struct worker *w, struct place p, int64_t delay_ms);
/* Redis refuses the move that was chosen for the message; error is the reason from Redis. */
void settle_set_aside(struct worker *w, struct place p, const char *error);
/* Empties the trays except for running messages and `but` (tray -1: none): done messages are acknowledged, waiting ones
 * handed back. */
void settle_relieve(struct worker *w, struct place but);
int settle_max_attempts(const struct worker *w, const struct message *m);

/* ---- verdict.c ---- */
/* False: whether a stop ended the handler is undecided; call again in the next turn. An end by a stop becomes
 * HANDLER_STOPPED. */
bool verdict_is_due(struct worker *w, struct handler_result *result, int64_t now_ms);
void verdict_of_exec(struct worker *w, struct place p, const struct handler_result *result, int64_t now_ms);
/* the end of a persistent handler, as that of a run */
struct handler_result verdict_result(const struct persistent_end *e);
/* Logs the end, and opens the breaker if the handler is the cause. */
void verdict_note_end(struct worker *w, const struct persistent_end *e, int64_t now_ms);
/* No message can be the cause: the handler could not be executed, or it ended before it read anything. */
bool verdict_is_broken(const struct persistent_end *e);
/*
 * The process read a job and ended without any answer, and no handler of the queue has answered since the start, reload
 * or restart: each handler may do so, or only this message may be the cause. A timeout is about its message.
 */
bool verdict_is_mute(const struct worker *w, const struct persistent_end *e);
/* An answer of a persistent handler. */
void verdict_of_answer(struct worker *w, struct place p, const struct handler_reply *r, int64_t now_ms);
/* For a reply that does not mean done: sets verdict, class, text, words and delay of f. */
void verdict_of_reply(struct failure *f, const struct handler_reply *r);
/* sets class, text, words and result of f; depends on its verdict */
void verdict_describe(struct failure *f, const struct handler_result *result);

#endif
