#ifndef ADMIN_WEB_SERVER_H
#define ADMIN_WEB_SERVER_H

#include <stdbool.h>

#include "admin/cli/cli.h"
#include "admin/web/client.h"
#include "admin/web/job.h"
#include "admin/web/probe.h"
#include "admin/web/session.h"
#include "admin/web/stream.h"

#include "common/base/base.h"

/*
 * The server of the console: one thread around libevent's evhttp. It never talks to Redis: a short-lived child
 * (web/job.h) serves each request that needs Redis, so a stalled Redis, or a crash, affects only that request. Only
 * this folder includes this header.
 *	settings.c	the configuration, the token		listen.c	the socket
 *	server.c	evhttp, start and end			client.c	connections and their limits
 *	call.c		a request on its way			refusal.c	errors of evhttp itself
 *	gate.c		the form of a request			access.c	permissions
 *	session.c	codes and sessions			query.c		parameters
 *	routes.c	the table of addresses			answer.c	headers, errors, log
 *	job.c		children				command.c	commands of quredis in a child
 *	overview.c	all queues in one document		stream.c	events
 *	metrics.c	/metrics				probe.c		/livez and /readyz
 *	assets.c	the files of the pages
 */
struct web_settings {
	char *host, *port;		/* as configured; port "0": any free one */
	/* of a unix socket, then host is "localhost"; NULL: the console listens on host and port */
	char *path;
	char *token;			/* never NULL */
	bool token_made;		/* the console made it at its start, so the console must print it */
	bool read_only;
	bool public_reads;		/* reading needs neither token nor session */
	bool behind_proxy;		/* the peer is a proxy, so its user and address say nothing about the client */
	bool loopback;			/* only this machine can reach the address */
	char *const *names;		/* web.hosts: further names that a Host header may have; NULL: none */
};

struct web {
	struct admin *a;		/* of the command line; children start with a copy of its options */
	struct web_settings settings;
	struct unix_socket_file socket;	/* at settings.path, if the console listens there */
	struct web_sessions sessions;
	struct event_base *base;
	struct evhttp *http;
	struct evconnlistener *listener;
	struct web_clients clients;
	struct event *again;		/* timer: accepts connections again after there were too many */
	struct web_jobs jobs;
	struct web_stream stream;
	struct web_probe probe;
	bool stopping;
};

/* Serves until SIGTERM or SIGINT. -1: failed, and the error was printed. */
int web_serve(struct web *w);
/* The same without signals and loop: takes ownership of fd, also on failure; then event_base_loop(w->base, ...), and in
 * any case web_close(). */
int web_open(struct web *w, int fd);
void web_close(struct web *w);

/* listen.c: returns a socket, and writes the real port into settings.port; -1: the reason was printed */
int web_listen(struct web *w);
void web_listen_end(struct web *w);	/* removes the unix socket, if it is still ours */

#endif
