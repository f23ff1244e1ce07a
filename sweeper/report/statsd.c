/*
 * Sends figures to statsd as datagrams: the last measurement of each queue that this sweeper leads, and the growth of
 * the counters of this supervisor's workers since the last datagram. It never waits and never sends again: a lost
 * datagram is a lost figure. Dots in the names of queues are replaced, because a dot would begin a new level of the
 * metric's name. A subprocess looks up the host name, since that may take long.
 */
#include <sys/wait.h>

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "common/base/base.h"
#include "sweeper/report/gauge.h"
#include "sweeper/report/health.h"
#include "sweeper/report/metrics.h"
#include "sweeper/core/core.h"
#include "sweeper/report/tally.h"

#define LOOKUP_TIMEOUT_MS 20000
#define LOOKUP_AGAIN_MS 60000		/* after a failed lookup */
#define LOOKUP_EVERY_MS 300000		/* the name may get another address */
#define REFUSED_AGAIN_MS 5000		/* the name may have another address: localhost is ::1 and 127.0.0.1 */
/* until a refusal counts as over: the kernel reports one only at the next datagram */
#define GOOD_ROUNDS 3
#define LINE_MAX 256

/* ---- state ---- */

static void note_error(struct sweeper *s, const char *error)
{
	struct statsd *d = &metrics_own(s)->statsd;

	if (strcmp(d->error, error) == 0)
		return;
	strlcpy(d->error, error, sizeof(d->error));
	if (error[0] == '\0')
		log_info("statsd_up", log_str("target", s->conf->metrics.statsd));
	else
		log_warning("statsd_down", log_str("target", s->conf->metrics.statsd), log_str("error", error));
}

/* ---- the address ---- */

static int resolve_target(const char *target, int flags, struct addrinfo **found)
{
	struct addrinfo hints = { .ai_socktype = SOCK_DGRAM, .ai_flags = flags | AI_NUMERICSERV };
	struct address a;

	return address_parse(&a, target) == -1 ? EAI_NONAME : getaddrinfo(a.host, a.port, &hints, found);
}

static void connect_to(struct statsd *d, const struct sockaddr *address, socklen_t len)
{
	int fd = socket(address->sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd != -1 && connect(fd, address, len) == -1) {
		close(fd);
		fd = -1;
	}
	if (fd == -1)
		return;
	if (d->connected)
		close(d->fd);
	d->fd = fd;
	d->connected = true;
}

/* If the name has several addresses, each one is used in turn. */
static int look_up_address(void *arg, int out)
{
	const struct sweeper *s = arg;
	struct addrinfo *first, *found;
	int error = resolve_target(s->conf->metrics.statsd, 0, &first);

	if (error != 0) {
		dprintf(out, "%s", gai_strerror(error));
		return 1;
	}
	found = first;
	for (int i = 0; i < metrics_own(s)->statsd.turn; i++)
		found = found->ai_next == NULL ? first : found->ai_next;
	return write(out, found->ai_addr, found->ai_addrlen) == (ssize_t)found->ai_addrlen ? 0 : 1;
}

/* A numeric address needs no lookup. */
static void find_address(struct sweeper *s, int64_t now_ms)
{
	struct statsd *d = &metrics_own(s)->statsd;
	struct addrinfo *found;

	if (subprocess_runs(&d->asked) || now_ms < d->ask_ms)
		return;
	d->ask_ms = now_ms + LOOKUP_EVERY_MS;
	d->turn += d->connected && d->good == 0;
	if (resolve_target(s->conf->metrics.statsd, AI_NUMERICHOST, &found) == 0) {
		if (!d->connected)
			connect_to(d, found->ai_addr, found->ai_addrlen);
		if (!d->connected)
			note_error(s, strerror(errno));
		freeaddrinfo(found);
	} else if (subprocess_start(&d->asked, look_up_address, s, LOOKUP_TIMEOUT_MS, now_ms) == -1) {
		note_error(s, strerror(errno));
	}
	if (!d->connected)
		d->ask_ms = now_ms + LOOKUP_AGAIN_MS;
}

void statsd_look(struct sweeper *s, int64_t now_ms)
{
	struct statsd *d = &metrics_own(s)->statsd;
	struct sockaddr_storage address;
	int status;

	if (!subprocess_poll(&d->asked, &status, now_ms))
		return;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && d->asked.said.len <= sizeof(address)) {
		memcpy(&address, d->asked.said.data, d->asked.said.len);
		connect_to(d, (const struct sockaddr *)&address, (socklen_t)d->asked.said.len);
		d->ask_ms = now_ms + LOOKUP_EVERY_MS;
	} else if (!d->connected) {
		buffer_append(&d->asked.said, "", 1);
		note_error(s, d->asked.said.len > 1 ? d->asked.said.data
		    : "its address could not be looked up in time");
	}
}

/* ---- datagrams ---- */

static void flush_packet(struct statsd *d)
{
	if (d->packet.len > 0 && send(d->fd, d->packet.data, d->packet.len - 1, MSG_NOSIGNAL) == -1 && errno != EAGAIN)
		d->refused = true;
	buffer_clear(&d->packet);
}

static __attribute__((format(printf, 2, 3))) void line(struct statsd *d, const char *fmt, ...)
{
	char text[LINE_MAX];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text) - 1, fmt, ap);
	va_end(ap);
	if (n < 0 || n >= LINE_MAX - 1)
		return;			/* no queue has such a long name */
	text[n++] = '\n';
	if (d->packet.len + (size_t)n - 1 > STATSD_PACKET_MAX)
		flush_packet(d);
	buffer_append(&d->packet, text, (size_t)n);
}

static const char *level_name(const char *queue, char out[QUEUE_NAME_MAX + 1])
{
	strlcpy(out, queue, QUEUE_NAME_MAX + 1);
	for (char *c = out; *c != '\0'; c++)
		*c = *c == '.' ? '_' : *c;
	return out;
}

static void send_gauges(struct statsd *d, const struct sweeper_queue *q)
{
	const struct facts *f = &gauge_of(q)->facts;
	char name[QUEUE_NAME_MAX + 1];

	level_name(q->keys.name, name);
	for (int i = 0; i < FACTS; i++) {
		const char *metric = facts_table[i].statsd;
		int star = metric == NULL ? 0 : (int)strcspn(metric, "*");
		bool nothing_waits = i == FACT_INGRESS_OLDEST && f->n[FACT_INGRESS_SIZE] == 0;
		int64_t n = nothing_waits ? 0 : f->n[i];

		if (metric != NULL && n >= 0)
			line(d, "%.*s%s%s:%" PRId64 "|g", star, metric, name, metric + star + 1,
			    facts_table[i].type == FACT_AGE ? n / 1000 : n);
	}
}

static void send_lag(struct statsd *d, const struct sweeper_queue *q, const char *name, const struct queue_figures *new)
{
	uint64_t moved = 0;

	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		moved += new->n[FIGURE_LAGS + i];
	if (moved == 0)
		return;
	line(d, "quredis.sweep.%s.lag.count:%" PRIu64 "|c", name, moved);
	line(d, "quredis.sweep.%s.lag.ms:%" PRIu64 "|c", name, new->n[FIGURE_LAG_MS]);
	line(d, "quredis.sweep.%s.lag.max:%" PRIu64 "|g", name, atomic_exchange(&q->board->sweeper.lag_max_ms, 0));
}

static void send_class(struct statsd *d, const char *queue, const char *kind, struct class_figure f)
{
	for (char *c = f.name; *c != '\0'; c++)
		*c = *c == '.' || *c == ':' ? '_' : *c;
	if (f.n > 0)
		line(d, "quredis.queue.%s.%s.%s:%" PRIu64 "|c", queue, kind, f.name, f.n);
}

static void send_classes(struct statsd *d, const struct sweeper_queue *q, const char *name)
{
	for (size_t i = 0; i < CLASS_FIGURES; i++) {
		struct class_figure f = classes_figure(&q->board->workers.classes, i);

		f.n = tally_claim(&q->board->reported.classes_sent[i], f.n);
		send_class(d, name, "class", f);
	}
}

void statsd_failed(struct sweeper *s, const struct sweeper_queue *q, const struct failed_batch *batch)
{
	struct statsd *d = &metrics_own(s)->statsd;
	char name[QUEUE_NAME_MAX + 1];

	if (!d->connected)
		return;
	level_name(q->keys.name, name);
	for (size_t i = 0; i < FAILED_FIGURES; i++)
		send_class(d, name, "failed_class", batch->figures[i]);
	flush_packet(d);		/* the process may end before the next round */
}

/* sent: adds up what was sent for all queues */
static void send_counters(struct statsd *d, const struct sweeper_queue *q, const struct queue_figures *counted,
    struct queue_figures *sent)
{
	struct queue_figures new;
	char name[QUEUE_NAME_MAX + 1];

	level_name(q->keys.name, name);
	for (int i = 0; i < QUEUE_FIGURES; i++) {
		new.n[i] = i == COUNT_RECONNECTED ? 0 : tally_claim(&q->board->reported.sent[i], counted->n[i]);
		sent->n[i] += new.n[i];
		if (i < COUNTERS && new.n[i] > 0)
			line(d, "quredis.queue.%s.%s:%" PRIu64 "|c", name, counters_table[i].name, new.n[i]);
	}
	send_classes(d, q, name);
	send_lag(d, q, name, &new);
}

/* Sends the number of purged messages of all queues, by the place of the messages. Messages that a dry run named have a
 * counter of their own. */
static void send_purge(struct statsd *d, struct board_registry *r, const struct queue_figures *sent)
{
	uint64_t registrations = tally_claim(&r->left_sent, atomic_load(&r->left));
	uint64_t would = tally_claim(&r->would_leave_sent, atomic_load(&r->would_leave));

	for (int i = 0; i < COUNTERS; i++) {
		uint64_t n = counters_table[i].purged == NULL ? 0 : counters_purged(sent, (enum counter)i);

		n += i == COUNT_ORPHANED ? registrations : i == COUNT_WOULD_PURGE ? would : 0;
		if (n > 0)
			line(d, "quredis.purge.%s.count:%" PRIu64 "|c", counters_table[i].purged, n);
	}
}

static void send_health(struct sweeper *s)
{
	const struct health_sum *sum = health_sum_of(s);
	int worst = QUEUE_UNHEALTHY;

	if (!sum->known)
		return;
	while (worst > QUEUE_HEALTHY && sum->queues[worst] == 0)
		worst--;
	if (worst == QUEUE_HEALTHY && sum->unknown > 0)
		worst = QUEUE_DEGRADED;		/* no supervisor confirms that it is healthy */
	line(&metrics_own(s)->statsd, "quredis.health.status:%d|g", worst);
	line(&metrics_own(s)->statsd, "quredis.health.stuck.count:%" PRId64 "|g", sum->stuck);
}

/* The error of the last datagram of a round is reported with the next one, so one more round must pass. */
static void judge_round(struct sweeper *s, int64_t now_ms)
{
	struct statsd *d = &metrics_own(s)->statsd;

	d->good = d->refused ? 0 : d->good + 1;
	if (d->refused) {
		note_error(s, "datagrams are refused");
		if (d->ask_ms > now_ms + REFUSED_AGAIN_MS)
			d->ask_ms = now_ms + REFUSED_AGAIN_MS;
	} else if (d->good >= GOOD_ROUNDS) {
		note_error(s, "");
	}
	d->refused = false;
}

/* A round, for each queue. */
struct round {
	struct statsd *d;
	const struct queue_figures *counted;
	struct queue_figures sent;	/* of all queues */
	int64_t now_ms;
};

static void send_queue(struct sweeper *s, struct sweeper_queue *q, void *arg)
{
	struct round *r = arg;

	if (q->conf != NULL && metrics_is_fresh(s, q, r->now_ms))
		send_gauges(r->d, q);
	if (q->board != NULL)
		send_counters(r->d, q, &r->counted[q->board - s->child->board->queues], &r->sent);
}

void statsd_send(struct sweeper *s, int64_t now_ms)
{
	struct round r = { .d = &metrics_own(s)->statsd, .now_ms = now_ms };
	struct queue_figures *counted;

	find_address(s, now_ms);
	if (!r.d->connected)
		return;
	r.counted = counted = tally_add_up(s);
	send_health(s);
	sweeper_queues_each(s, send_queue, &r);
	send_purge(r.d, &s->child->board->sweeper.registry, &r.sent);
	flush_packet(r.d);
	judge_round(s, now_ms);
	free(counted);
}
