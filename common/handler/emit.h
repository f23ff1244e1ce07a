#ifndef COMMON_HANDLER_EMIT_H
#define COMMON_HANDLER_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/base.h"
#include "common/conf/conf.h"
#include "common/handler/reply.h"

/*
 * A handler emits messages for other queues, which are pushed only if its own message is done. Until then they
 * wait here, bounded by emit.max and emit.max_bytes. A refusal fails the attempt once the handler says that
 * the message is done; until then the handler need not know.
 */
struct handler_emission {
	size_t target;			/* index in conf->emit.targets */
	int64_t delay_ms;		/* 0: none */
	size_t at, len;			/* in the bytes */
};

/* Of one message. */
struct handler_emissions {
	struct handler_emission *list;
	size_t n;
	struct buffer bytes;
	char refused[HANDLER_REASON_SHOWN];	/* why the attempt fails; "": it does not. Then nothing is kept */
};

/* The bytes of an EMIT, while they arrive. Zeroed: no bytes are expected. */
struct handler_intake {
	bool open;			/* bytes are expected, or the newline behind them */
	bool kept;			/* they belong to the last emission; false: they are skipped */
	int64_t left;
};

void handler_emissions_free(struct handler_emissions *e);	/* may be NULL */
/* Moves the contents into a new struct, which the caller owns. */
struct handler_emissions *handler_emissions_take(struct handler_emissions *e);

/* Starts the bytes of an EMIT line. *e is made at the first one. False: the line has another form, so what follows is
 * not known. */
bool handler_emit_begin(struct handler_emissions **e, struct handler_intake *in, const struct conf_queue *conf,
    const struct handler_reply *r);
/* The same for a message that has been answered: its bytes are skipped. False: as above */
bool handler_emit_skip(struct handler_intake *in, const struct handler_reply *r);
/* The line is an EMIT of any form. */
static inline bool handler_line_emits(const char *line, size_t len)
{
	return len >= 5 && memcmp(line, "EMIT ", 5) == 0;
}
/* Refuses what a persistent handler emits by an EMIT without a serial. *e is made if it is NULL */
void handler_emit_lose(struct handler_emissions **e, const char *line, size_t len);

/*
 * Takes what belongs to the EMIT from data, and returns how many bytes that were. e NULL: of no message any more.
 * The intake is closed with its last byte, or where another byte stands in place of the newline: then *broken is set.
 */
size_t handler_emit_take(struct handler_intake *in, struct handler_emissions *e, const char *data, size_t len,
    bool *broken);
/* No more bytes come. */
void handler_emit_end(struct handler_intake *in, struct handler_emissions *e);

#endif
