/*
 * The server: evhttp on one socket, with a limit on everything that a client can make it store. web/gate.c checks the
 * form of a request and web/access.c its permission; web/routes.c has the handler of each address.
 */
#include <sys/socket.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>

#include "admin/web/call.h"

#include "common/base/base.h"

#define HEADERS_MAX (16 * 1024)
#define BODY_MAX 4096			/* read only so that the refusal can say why */
#define IDLE_S 20			/* longer than the time limit of a child */
/* then a connection is closed to make room; if none can be, new ones wait in the kernel */
#define DESCRIPTORS_MAX 256
#define AGAIN_MS 200

static void set_after(struct event *event, int ms)
{
	event_add(event, &(struct timeval){ .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 });
}

/* ---- connections ---- */

/* The kernel gives the lowest free descriptor, so its number says how many are open. */
static bool is_full(const struct web *w)
{
	int fd = fcntl(evconnlistener_get_fd(w->listener), F_DUPFD_CLOEXEC, 0);

	if (fd != -1)
		close(fd);
	return fd == -1 || fd >= DESCRIPTORS_MAX;
}

static void rest(struct web *w)
{
	evconnlistener_disable(w->listener);
	set_after(w->again, AGAIN_MS);
}

static void on_again(int fd, short what, void *arg)
{
	struct web *w = arg;

	(void)fd, (void)what;
	if (is_full(w))
		set_after(w->again, AGAIN_MS);
	else
		evconnlistener_enable(w->listener);
}

/* evhttp asks for a bufferevent at each new connection. */
static struct bufferevent *on_connection(struct event_base *base, void *arg)
{
	(void)base;
	web_clients_bound(arg);
	if (is_full(arg) && !web_clients_give_way(arg))
		rest(arg);
	return web_client_new(arg);
}

/* No descriptors are left: without a pause the loop would retry without end. */
static void on_accept_error(struct evconnlistener *listener, void *arg)
{
	(void)listener;
	admin_note("quredis: accept failed: %s", strerror(errno));
	rest(arg);
}

/* ---- start and end ---- */

static void on_signal(int sig, short what, void *arg)
{
	struct web *w = arg;

	(void)sig, (void)what;
	event_base_loopbreak(w->base);
}

static int start_http(struct web *w, int fd)
{
	struct evhttp_bound_socket *bound;

	w->http = evhttp_new(w->base);
	if (w->http == NULL)
		return -1;
	evhttp_set_allowed_methods(w->http,
	    EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD | EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
	    EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH | EVHTTP_REQ_TRACE | EVHTTP_REQ_CONNECT);
	evhttp_set_max_headers_size(w->http, HEADERS_MAX);
	evhttp_set_max_body_size(w->http, BODY_MAX);
	evhttp_set_timeout(w->http, IDLE_S);
	evhttp_set_gencb(w->http, web_call_begin, w);
	evhttp_set_bevcb(w->http, on_connection, w);
	bound = evhttp_accept_socket_with_handle(w->http, fd);
	if (bound == NULL)
		return -1;
	w->listener = evhttp_bound_socket_get_listener(bound);
	evconnlistener_set_error_cb(w->listener, on_accept_error);
	w->again = evtimer_new(w->base, on_again, w);
	return w->again == NULL ? -1 : 0;
}

/* The address on which the console listens; a new string. */
static char *listen_address(const struct web_settings *s)
{
	bool six = strchr(s->host, ':') != NULL;

	if (s->path != NULL)
		return alloc_format("unix:%s", s->path);
	return alloc_format("http://%s%s%s:%s/", six ? "[" : "", s->host, six ? "]" : "", s->port);
}

static bool has_proxy_address(const struct web_settings *s)
{
	return s->behind_proxy && s->names != NULL && s->names[0] != NULL;
}

/* Prints the address to open. Browsers do not send what follows a #, and a code that was used is worth nothing in their
 * history. */
static void print_address(struct web *w, bool with_code)
{
	const struct web_settings *s = &w->settings;
	char *address = has_proxy_address(s) ? alloc_format("https://%s/", s->names[0]) : listen_address(s);

	if (!with_code || (s->path != NULL && !s->behind_proxy))
		admin_note("quredis: %s", address);
	else
		admin_note("quredis: %s#code=%s", address, web_sessions_make_code(&w->sessions, clock_boottime_ms()));
	free(address);
}

static void on_usr1(int sig, short what, void *arg)
{
	(void)sig, (void)what;
	print_address(arg, true);
}

/* With a token file the console prints a code only to a terminal: a journal should not hold one. SIGUSR1 prints one. */
static void print_start(struct web *w)
{
	char *address = listen_address(&w->settings);

	if (has_proxy_address(&w->settings))
		admin_note("quredis: %s", address);
	free(address);
	print_address(w, w->settings.token_made || isatty(STDERR_FILENO));
	if (w->settings.token_made)
		admin_note("quredis: the token for programs is %s", w->settings.token);
}

static void free_event(struct event *event)
{
	if (event != NULL)
		event_free(event);
}

int web_open(struct web *w, int fd)
{
	web_clients_init(&w->clients);
	w->base = event_base_new();
	if (w->base != NULL && web_jobs_init(&w->jobs, w->base) == 0 && web_stream_init(w) == 0 &&
	    start_http(w, fd) == 0)
		return 0;
	if (w->http == NULL)
		close(fd);
	return admin_fail(w->a, EX_OSERR, "libevent: %s", strerror(errno));
}

void web_close(struct web *w)
{
	w->stopping = true;
	web_jobs_free(&w->jobs);
	web_stream_free(w);
	if (w->http != NULL)
		evhttp_free(w->http);
	web_clients_free(w);
	free_event(w->again);
	if (w->base != NULL)
		event_base_free(w->base);
}

static int run_server(struct web *w)
{
	static const struct { int sig; event_callback_fn act; } signals[] =
	    { { SIGTERM, on_signal }, { SIGINT, on_signal }, { SIGUSR1, on_usr1 } };
	struct event *events[nitems(signals)];
	int rc;

	for (size_t i = 0; i < nitems(signals); i++) {
		events[i] = evsignal_new(w->base, signals[i].sig, signals[i].act, w);
		if (events[i] == NULL || event_add(events[i], NULL) == -1)
			alloc_failed();
	}
	print_start(w);
	rc = event_base_dispatch(w->base);
	for (size_t i = 0; i < nitems(signals); i++)
		free_event(events[i]);
	return rc == -1 ? admin_fail(w->a, EX_OSERR, "libevent: %s", strerror(errno)) : 0;
}

int web_serve(struct web *w)
{
	int fd = web_listen(w), rc;

	if (fd == -1)
		return -1;
	rc = web_open(w, fd) == -1 ? -1 : run_server(w);
	web_close(w);
	web_listen_end(w);
	return rc;
}
