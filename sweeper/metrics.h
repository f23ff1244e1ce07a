#ifndef SWEEPER_METRICS_H
#define SWEEPER_METRICS_H

#include <sys/socket.h>

#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"
#include "sweeper/errand.h"

struct conf;
struct sweeper;
struct swept;

/* Where figures are sent as datagrams (statsd.c). */
struct statsd {
	int fd;				/* connected; -1: not yet */
	struct errand asked;		/* for the address of a name */
	int64_t ask_ms;			/* CLOCK_MONOTONIC: not before */
	struct buffer packet;
	bool refused;			/* in this round */
	int good;			/* rounds in a row that were not */
	int turn;			/* which address of a name is asked for: the next one after each refusal */
	char error[128];		/* as logged last; "": all is well */
};

/* Where the Prometheus file is written (textfile.c). */
struct textfile {
	struct errand writing;
	struct buffer text;		/* being written */
	char error[256];		/* as logged last; "": all is well */
};

/* metrics.c */
struct metrics {
	int64_t due_ms;			/* CLOCK_MONOTONIC: statsd and file are told again */
	uint64_t looks;
	struct statsd statsd;
	struct textfile textfile;
};

void metrics_init(struct sweeper *s);
void metrics_free(struct sweeper *s);
bool metrics_wanted(const struct conf *conf);	/* queues are measured */
/* Each turn, also without a connection: tells what is known to those who want it. Never waits. */
void metrics_tell(struct sweeper *s, int64_t now_ms);
/* Its last look is ours, and not too old to be told. */
bool metrics_is_fresh(const struct sweeper *s, const struct swept *q, int64_t now_ms);

/* prometheus.c: all of it, as text */
void prometheus_page(const struct sweeper *s, struct buffer *out, int64_t now_ms);

/* textfile.c. Writes the page, unless the last one is being written; looks how that went. */
void textfile_write(struct sweeper *s, int64_t now_ms);
void textfile_look(struct sweeper *s, int64_t now_ms);

/* statsd.c. Sends, if the address is known; asks for it. */
#define STATSD_PACKET_MAX 1432		/* what an Ethernet carries in one piece */
void statsd_send(struct sweeper *s, int64_t now_ms);
void statsd_look(struct sweeper *s, int64_t now_ms);

#endif
