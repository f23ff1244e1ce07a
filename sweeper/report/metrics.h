#ifndef SWEEPER_REPORT_METRICS_H
#define SWEEPER_REPORT_METRICS_H

#include <sys/socket.h>

#include <stdbool.h>
#include <stdint.h>

#include "common/base/base.h"
#include "sweeper/core/core.h"

struct conf;
struct failed_batch;
struct sweeper;
struct sweeper_queue;

/* The receiver of statsd datagrams (statsd.c). */
struct statsd {
	bool connected;
	int fd;				/* if connected */
	struct subprocess asked;		/* looks up the address of a name */
	int64_t ask_ms;			/* CLOCK_MONOTONIC: no lookup before */
	struct buffer packet;
	bool refused;			/* a datagram was refused in this round */
	int good;			/* consecutive rounds without a refusal */
	int turn;			/* which address of the name to use: the next one after each refusal */
	char error[128];		/* as logged last; "": no error */
};

/* The Prometheus file (textfile.c). */
struct textfile {
	struct subprocess writing;
	struct buffer text;		/* the page that is being written */
	char error[256];		/* as logged last; "": no error */
};

/* metrics.c */
struct metrics {
	int64_t due_ms;			/* CLOCK_MONOTONIC: when to send again */
	uint64_t looks;
	struct statsd statsd;
	struct textfile textfile;
};

struct metrics *metrics_own(const struct sweeper *s);	/* the task's own state */
/* True: this sweeper has measured the queue, not too long ago to report the result. */
bool metrics_is_fresh(const struct sweeper *s, const struct sweeper_queue *q, int64_t now_ms);

/* prometheus.c: writes the whole page as text */
void prometheus_page(struct sweeper *s, struct buffer *out, int64_t now_ms);

/* textfile.c. Writes the page, unless the last one is still being written; checks how the last write ended. */
void textfile_write(struct sweeper *s, int64_t now_ms);
void textfile_look(struct sweeper *s, int64_t now_ms);

/* statsd.c. Sends the figures if the address is known; otherwise looks it up. */
#define STATSD_PACKET_MAX 1432		/* fits into one Ethernet frame */
void statsd_send(struct sweeper *s, int64_t now_ms);
void statsd_look(struct sweeper *s, int64_t now_ms);
/* at once, if the address is known */
void statsd_failed(struct sweeper *s, const struct sweeper_queue *q, const struct failed_batch *batch);

#endif
