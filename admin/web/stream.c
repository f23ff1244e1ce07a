/*
 * Server-sent events. A child reads the overview once a second for all viewers, and the server sends it if it changed.
 * A viewer that does not read its events is disconnected.
 */
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>

#include "admin/web/call.h"

#include "common/base/base.h"

#define LOOK_S 1
#define HEARTBEAT_MS 15000
#define UNREAD_MAX (4 * 1024 * 1024)	/* bytes of one viewer, besides the event being sent */
#define STALL_S 30			/* without reading anything */

struct web_viewer {
	TAILQ_ENTRY(web_viewer) entry;
	struct web *w;
	struct evhttp_request *req;
	struct evhttp_connection *connection;
	char *address;			/* of the client; "": not known, behind a proxy that does not name it. Owned */
};

/* ---- one viewer ---- */

/* The connection ended. The request is ours to free, unless the server ends. */
static void on_gone(void *arg)
{
	struct web_viewer *v = arg;
	struct web_stream *s = &v->w->stream;

	TAILQ_REMOVE(&s->viewers, v, entry);
	s->nviewers--;
	if (s->nviewers == 0)
		event_del(s->clock);
	if (!v->w->stopping && evhttp_request_get_connection(v->req) == NULL)
		evhttp_request_free(v->req);
	free(v->address);
	free(v);
}

static bool is_stalled(const struct web_viewer *v)
{
	struct bufferevent *b = evhttp_connection_get_bufferevent(v->connection);

	return evbuffer_get_length(bufferevent_get_output(b)) > UNREAD_MAX;
}

/* Closes the connection, with all that the viewer did not read. */
static void drop_viewer(struct web_viewer *v)
{
	evhttp_connection_free(v->connection);		/* calls on_gone() */
}

static void send_to(struct web_viewer *v, const struct buffer *text)
{
	struct evbuffer *chunk;

	if (is_stalled(v)) {
		drop_viewer(v);
		return;
	}
	chunk = evbuffer_new();
	if (chunk == NULL || evbuffer_add(chunk, text->data, text->len) == -1)
		alloc_failed();
	evhttp_send_reply_chunk(v->req, chunk);
	evbuffer_free(chunk);
}

static void send_to_all(struct web_stream *s, const struct buffer *text)
{
	struct web_viewer *v, *next;

	TAILQ_FOREACH_SAFE(v, &s->viewers, entry, next)
		send_to(v, text);
	s->sent_ms = clock_monotonic_ms();
}

/* ---- events ---- */

static void event_of(struct buffer *event, const struct buffer *document)
{
	bool failed = strncmp(document->data, "{\"error\"", 8) == 0;

	buffer_format(event, "event: %s\ndata: ", failed ? "failure" : "overview");
	buffer_append(event, document->data, document->len);
	buffer_format(event, "\n\n");
}

/* The first member of the document is the time, which always differs. */
static bool is_news(const struct buffer *a, const struct buffer *b)
{
	const char *rest_a = a->len == 0 ? NULL : memchr(a->data, ',', a->len), *rest_b = memchr(b->data, ',', b->len);
	size_t len_a, len_b;

	if (rest_a == NULL || rest_b == NULL)
		return a->len != b->len || memcmp(a->data, b->data, a->len) != 0;
	len_a = a->len - (size_t)(rest_a - a->data);
	len_b = b->len - (size_t)(rest_b - b->data);
	return len_a != len_b || memcmp(rest_a, rest_b, len_a) != 0;
}

static void send_to_viewers(struct web_stream *s, struct buffer *document)
{
	struct buffer event = {0};

	if (is_news(&s->last, document)) {
		event_of(&event, document);
		send_to_all(s, &event);
	} else if (clock_monotonic_ms() - s->sent_ms >= HEARTBEAT_MS) {
		buffer_format(&event, ": still here\n\n");
		send_to_all(s, &event);
	}
	buffer_free(&event);
	buffer_free(&s->last);
	s->last = *document;
	*document = (struct buffer){0};
}

static void send_overview(const struct web_job *job, void *arg)
{
	struct web *w = arg;
	struct buffer document = {0};
	size_t len = job->answer.len;

	w->stream.asking = false;
	while (len > 0 && job->answer.data[len - 1] == '\n')
		len--;
	if (web_job_status(job) == 0 && len > 0)
		buffer_append(&document, job->answer.data, len);
	else
		web_command_failure(job, &document);
	send_to_viewers(&w->stream, &document);
}

static void start_overview(struct web *w)
{
	if (w->stream.asking)
		return;
	w->stream.asking = true;
	web_job_start(&w->jobs, &(struct web_question){ .work = web_overview_print, .done = send_overview, .arg = w,
	    .extra = true });
}

static void on_clock(int fd, short what, void *arg)
{
	(void)fd, (void)what;
	start_overview(arg);
}

/* ---- a new viewer ---- */

/* Behind a proxy: the last address of X-Forwarded-For, which the proxy wrote; a client can forge those before it. A new
 * string. */
static char *address_of(const struct web_call *call)
{
	const char *said = web_call_header(call, "X-Forwarded-For"), *comma;
	char *peer = "";
	ev_uint16_t port;

	if (!call->w->settings.behind_proxy) {
		evhttp_connection_get_peer(evhttp_request_get_connection(call->req), &peer, &port);
		return alloc_string(peer);
	}
	if (said == NULL)
		return alloc_string("");
	comma = strrchr(said, ',');
	said = comma == NULL ? said : comma + 1;
	return alloc_string(said + strspn(said, " \t"));
}

static bool has_too_many(const struct web_stream *s, const char *address)
{
	const struct web_viewer *v;
	int n = 0;

	TAILQ_FOREACH(v, &s->viewers, entry)
		n += address[0] != '\0' && strcmp(v->address, address) == 0;
	return n >= WEB_VIEWERS_ADDRESS_MAX;
}

/* Takes ownership of address. */
static void begin_stream(struct web_call *call, char *address)
{
	struct timeval stall = { .tv_sec = STALL_S };
	struct web_stream *s = &call->w->stream;
	struct web_viewer *v = alloc_zero(1, sizeof(*v));
	struct buffer first = {0};

	*v = (struct web_viewer){ .w = call->w, .req = call->req,
		.connection = evhttp_request_get_connection(call->req),
		.address = address };
	web_answer_headers(call);
	web_answer_header(call, "Content-Type", "text/event-stream");
	web_answer_header(call, "X-Accel-Buffering", "no");	/* nginx then forwards each event at once */
	evhttp_send_reply_start(v->req, 200, NULL);
	/* a viewer sends nothing: only writing has a time limit */
	bufferevent_set_timeouts(evhttp_connection_get_bufferevent(v->connection), NULL, &stall);
	web_client_on_gone(v->w, v->connection, on_gone, v);
	TAILQ_INSERT_TAIL(&s->viewers, v, entry);
	if (s->nviewers++ == 0) {
		buffer_clear(&s->last);		/* without viewers it was not updated */
		event_add(s->clock, &(struct timeval){ .tv_sec = LOOK_S });
		start_overview(call->w);
	}
	buffer_format(&first, "retry: 2000\n\n");
	if (s->last.len > 0)
		event_of(&first, &s->last);
	send_to(v, &first);
	buffer_free(&first);
	web_call_end(call);
}

void web_events(struct web_call *call)
{
	struct web_stream *s = &call->w->stream;
	char *address;

	if (evhttp_request_get_connection(call->req) == NULL ||
	    evhttp_request_get_command(call->req) != EVHTTP_REQ_GET) {
		web_answer_error(call, 405, "this address takes GET only");
		return;
	}
	address = address_of(call);
	if (has_too_many(s, address)) {
		free(address);
		web_answer_header(call, "Retry-After", "10");
		web_answer_error(call, 429, "%d event streams to this address are open already",
		    WEB_VIEWERS_ADDRESS_MAX);
	} else if (s->nviewers >= WEB_VIEWERS_MAX) {
		free(address);
		web_answer_error(call, 503, "%d event streams are open already", WEB_VIEWERS_MAX);
	} else {
		begin_stream(call, address);
	}
}

/* ---- start and end ---- */

int web_stream_init(struct web *w)
{
	TAILQ_INIT(&w->stream.viewers);
	w->stream.clock = event_new(w->base, -1, EV_PERSIST, on_clock, w);
	return w->stream.clock == NULL ? -1 : 0;
}

void web_stream_free(struct web *w)
{
	struct web_viewer *v, *next;

	TAILQ_FOREACH_SAFE(v, &w->stream.viewers, entry, next)
		drop_viewer(v);
	if (w->stream.clock != NULL)
		event_free(w->stream.clock);
	buffer_free(&w->stream.last);
}
