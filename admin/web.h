#ifndef ADMIN_WEB_H
#define ADMIN_WEB_H

#include <stdbool.h>
#include <stddef.h>

#include "admin/admin.h"
#include "admin/web_client.h"
#include "admin/web_job.h"
#include "admin/web_probe.h"
#include "admin/web_session.h"
#include "admin/web_stream.h"

#include "common/unix_socket.h"

/*
 * The web console: one thread around libevent's evhttp. It never talks to Redis: every question that needs it is a
 * short-lived child's (web_job.h), so a stalled Redis, or a crash, is that request's trouble and nobody else's.
 */
struct web_settings {
	char *host, *port;		/* as they were given; port "0": any that is free */
	char *path;			/* of a unix socket, then host is "localhost"; NULL: the console listens on host and port */
	char *token;			/* never NULL */
	bool token_made;		/* by us, at start: nobody has it yet */
	bool read_only;
	bool public_reads;		/* reading needs neither token nor session */
	bool behind_proxy;		/* the peer is a proxy, so its user and address say nothing about the client */
	bool loopback;			/* only this machine can reach the address */
	char *const *names;		/* web.hosts: what a Host header may say besides; NULL: none */
};

struct web {
	struct admin *a;		/* what the command line said; children begin with a copy of its options */
	struct web_settings settings;
	struct unix_socket_file socket;	/* at settings.path, if that is where we listen */
	struct web_sessions sessions;
	struct event_base *base;
	struct evhttp *http;
	struct evconnlistener *listener;
	struct web_clients clients;
	struct event *again;		/* takes connections again, after there were too many */
	struct web_jobs jobs;
	struct web_stream stream;
	struct web_probe probe;
	bool stopping;
};

/* Serves until TERM or INT. -1: said why not. */
int web_serve(struct web *w);
/* Its parts, but the signals: fd is taken, also on failure; then event_base_loop(w->base, ...); web_close() in any case. */
int web_open(struct web *w, int fd);
void web_close(struct web *w);

/* web_listen.c */
int web_listen(struct web *w);		/* returns a socket, and writes the real port into settings.port; -1: the reason was printed */
void web_listen_end(struct web *w);	/* removes the unix socket, if it is still ours */

/* web_token.c: web.token_file, or random bytes. -1: said why not. */
int web_token(struct admin *a, struct web_settings *s);

#endif
