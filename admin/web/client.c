/*
 * Limits the time in which a connection must send a request, and closes connections to make room. evhttp limits silence
 * and the number of bytes (web/server.c), but a client that sends a byte now and then is not silent.
 */
#include <stdlib.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>

#include "admin/web/server.h"

#include "common/base/base.h"

#define READ_MAX (64 * 1024)		/* bytes that a client may send before they are read */

struct web_client {
	TAILQ_ENTRY(web_client) entry;
	struct web *w;
	struct bufferevent *b;		/* evhttp's */
	struct evhttp_connection *connection;	/* NULL: evhttp is still making it */
	struct event *clock;		/* runs while its request is incomplete */
	struct event *refused;		/* evhttp answered with a page of its own, or has sent that page */
	enum web_client_state {
		CLIENT_ASKS,		/* it sends a request */
		CLIENT_WAITS,		/* its answer is being made, or it reads events (web/stream.c) */
		CLIENT_READS		/* it reads the rest of its answer */
	} state;
	bool is_known;
	bool is_last;			/* its answer is a refusal by evhttp */
	bool has_nul;			/* the client sent a NUL byte, at which evhttp ends a line */
	void (*gone)(void *arg);	/* called when the connection ends; may be NULL */
	void *arg;
};

static void client_free(struct web_client *c)
{
	TAILQ_REMOVE(&c->w->clients, c, entry);
	event_free(c->clock);
	event_free(c->refused);
	free(c);
}

static void on_close(struct evhttp_connection *connection, void *arg)
{
	struct web_client *c = arg;

	(void)connection;
	if (c->gone != NULL)
		c->gone(c->arg);
	client_free(c);
}

/* ---- time limits ---- */

static void set_state(struct web_client *c, enum web_client_state state)
{
	c->state = state;
	TAILQ_REMOVE(&c->w->clients, c, entry);
	TAILQ_INSERT_TAIL(&c->w->clients, c, entry);
}

static void await_request(struct web_client *c)
{
	set_state(c, CLIENT_ASKS);
	event_add(c->clock, &(struct timeval){ .tv_sec = WEB_REQUEST_MS / 1000,
	    .tv_usec = WEB_REQUEST_MS % 1000 * 1000 });
}

/* evhttp has no callback for a new connection, but the argument of its bufferevent callbacks is the connection. */
static void meet(struct web_client *c)
{
	void *connection;

	bufferevent_getcb(c->b, NULL, NULL, NULL, &connection);
	c->connection = connection;
	evhttp_connection_set_closecb(c->connection, on_close, c);
	event_del(c->clock);		/* its callback may be due */
	await_request(c);
}

static void on_clock(int fd, short what, void *arg)
{
	struct web_client *c = arg;

	(void)fd, (void)what;
	if (c->connection == NULL)
		meet(c);
	else
		evhttp_connection_free(c->connection);	/* calls on_close() */
}

static void on_answered(struct evhttp_request *req, void *arg)
{
	(void)req;
	await_request(arg);
}

static struct web_client *find_client(struct web *w, const struct evhttp_connection *connection)
{
	struct web_client *c;

	TAILQ_FOREACH(c, &w->clients, entry)
		if (c->connection == connection)
			return c;
	return NULL;
}

void web_client_asked(struct web *w, struct evhttp_request *req)
{
	struct web_client *c = find_client(w, evhttp_request_get_connection(req));

	event_del(c->clock);
	set_state(c, CLIENT_WAITS);
	evhttp_request_set_on_complete_cb(req, on_answered, c);
}

void web_client_on_gone(struct web *w, struct evhttp_connection *connection, void (*gone)(void *arg), void *arg)
{
	struct web_client *c = find_client(w, connection);

	c->gone = gone;
	c->arg = arg;
}

void web_client_is_known(struct web *w, struct evhttp_connection *connection)
{
	find_client(w, connection)->is_known = true;
}

/* Returns the client that has been in this state for the longest time; of_strangers: only among those without token or
 * session. */
static struct web_client *longest(struct web *w, enum web_client_state state, bool of_strangers)
{
	struct web_client *c;

	TAILQ_FOREACH(c, &w->clients, entry)
		if (c->state == state && c->connection != NULL && !(of_strangers && c->is_known))
			return c;
	return NULL;
}

static bool close_one(struct web *w, bool of_strangers)
{
	struct web_client *c = longest(w, CLIENT_ASKS, of_strangers);

	if (c == NULL)
		c = longest(w, CLIENT_READS, of_strangers);
	if (c != NULL)
		evhttp_connection_free(c->connection);
	return c != NULL;
}

/* libevent may accept many connections in one turn of the loop. evhttp knows all of them by now, except the one that it
 * makes. */
static void meet_all(struct web *w)
{
	struct web_client *c, *next;

	TAILQ_FOREACH_SAFE(c, &w->clients, entry, next)
		if (c->connection == NULL)
			meet(c);
}

/*
 * Closes one stranger's connection if there are too many. A stranger whose request is being worked on is never cut, but
 * their number is bounded: WEB_PROBES_WAITING, and with web.public_reads also half of the jobs and WEB_VIEWERS_MAX.
 * That is less than WEB_STRANGERS_MAX, so there is always one that is still sending its request or reading its answer.
 */
void web_clients_bound(struct web *w)
{
	const struct web_client *c;
	int strangers = 0;

	meet_all(w);
	TAILQ_FOREACH(c, &w->clients, entry)
		strangers += !c->is_known;
	if (strangers >= WEB_STRANGERS_MAX)
		close_one(w, true);
}

bool web_clients_give_way(struct web *w)
{
	return close_one(w, true) || close_one(w, false);
}

static size_t unread(const struct web *w)
{
	const struct web_client *c;
	size_t all = 0;

	TAILQ_FOREACH(c, &w->clients, entry)
		if (c->state == CLIENT_READS)
			all += evbuffer_get_length(bufferevent_get_output(c->b));
	return all;
}

void web_client_answered(struct web *w, struct evhttp_connection *connection)
{
	struct web_client *c = find_client(w, connection), *other;

	set_state(c, CLIENT_READS);
	while (unread(w) > WEB_UNREAD_MAX && (other = longest(w, CLIENT_READS, false)) != c)
		evhttp_connection_free(other->connection);
}

/* ---- answers of evhttp ---- */

static void on_output(struct evbuffer *output, const struct evbuffer_cb_info *info, void *arg)
{
	struct web_client *c = arg;
	bool is_page = info->n_added > 0 && c->state == CLIENT_ASKS;

	if (is_page || (c->is_last && evbuffer_get_length(output) == 0))
		/* the page is incomplete; libevent writes nothing before the next turn of the loop */
		event_active(c->refused, EV_TIMEOUT, 0);
}

static void on_refused(int fd, short what, void *arg)
{
	struct web_client *c = arg;
	struct evbuffer *output = bufferevent_get_output(c->b);

	(void)fd, (void)what;
	if (c->state == CLIENT_ASKS && web_refusal_rewrite(output)) {
		set_state(c, CLIENT_READS);
		c->is_last = true;
	} else if (c->is_last && evbuffer_get_length(output) == 0) {
		/* evhttp keeps the connection of a CONNECT, and would take what follows for a request */
		evhttp_connection_free(c->connection);	/* calls on_close() */
	}
}

/* ---- bytes that evhttp does not see ---- */

static void on_input(struct evbuffer *input, const struct evbuffer_cb_info *info, void *arg)
{
	struct web_client *c = arg;
	struct evbuffer_ptr added;

	if (info->n_added == 0 || evbuffer_ptr_set(input, &added, info->orig_size, EVBUFFER_PTR_SET) == -1)
		return;
	added = evbuffer_search(input, "", 1, &added);
	c->has_nul |= added.pos != -1;
}

bool web_client_sent_nul(struct web *w, const struct evhttp_connection *connection)
{
	return find_client(w, connection)->has_nul;
}

/* ---- start and end ---- */

void web_clients_init(struct web_clients *all)
{
	TAILQ_INIT(all);
}

struct bufferevent *web_client_new(struct web *w)
{
	struct bufferevent *b = bufferevent_socket_new(w->base, -1, 0);
	struct web_client *c;

	if (b == NULL)
		return NULL;
	bufferevent_setwatermark(b, EV_READ, 0, READ_MAX);
	c = alloc_zero(1, sizeof(*c));
	*c = (struct web_client){ .w = w, .b = b };
	c->clock = evtimer_new(w->base, on_clock, c);
	c->refused = evtimer_new(w->base, on_refused, c);
	if (c->clock == NULL || c->refused == NULL ||
	    evbuffer_add_cb(bufferevent_get_output(b), on_output, c) == NULL ||
	    evbuffer_add_cb(bufferevent_get_input(b), on_input, c) == NULL)
		alloc_failed();
	TAILQ_INSERT_TAIL(&w->clients, c, entry);
	event_active(c->clock, EV_TIMEOUT, 0);	/* calls meet() before any byte is read */
	return b;
}

void web_clients_free(struct web *w)
{
	struct web_client *c;

	while ((c = TAILQ_FIRST(&w->clients)) != NULL)
		client_free(c);
}
