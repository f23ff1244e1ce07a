#ifndef ADMIN_WEB_CLIENT_H
#define ADMIN_WEB_CLIENT_H

#include <stdbool.h>

#include <bsd/sys/queue.h>

struct bufferevent;
struct evhttp_connection;
struct evhttp_request;
struct web;

/*
 * Who is connected. A whole request has to be there WEB_REQUEST_MS after the connection was made, or after the answer
 * before it was sent; how long an answer takes is not limited here. Where no further connection has room, who has been
 * waited for the longest gives way, and if there is none who has been reading its answer for the longest; so do those where
 * more than WEB_UNREAD_MAX bytes of answers lie unread.
 *
 * A connection belongs to a stranger until a request on it came with the token or a session. There are at most
 * WEB_STRANGERS_MAX such connections, and they are closed first: the other descriptors are kept for holders of the token or
 * a session, and for pipes to children.
 */
#define WEB_REQUEST_MS 10000
#define WEB_STRANGERS_MAX 192
#define WEB_UNREAD_MAX ((size_t)64 * 1024 * 1024)

TAILQ_HEAD(web_clients, web_client);	/* by when they came into their state; the longest ago first */

/* For evhttp, which asks for one at each new connection. NULL: libevent would not. */
struct bufferevent *web_client_new(struct web *w);
/* Its request is whole, and will be answered. */
void web_client_asked(struct web *w, struct evhttp_request *req);
/* A request on this connection came with the token or a session: it is not a stranger any more. */
void web_client_is_known(struct web *w, struct evhttp_connection *connection);
/* true: the client sent a NUL byte. evhttp ends a line there, so it may have read another request than a proxy did. */
bool web_client_sent_nul(struct web *w, const struct evhttp_connection *connection);
/* The whole answer is in its hands, or on the way there. */
void web_client_answered(struct web *w, struct evhttp_connection *connection);
/* gone(arg) is called once when the connection ends. */
void web_client_on_gone(struct web *w, struct evhttp_connection *connection, void (*gone)(void *arg), void *arg);
/* Closes one stranger's connection if there are WEB_STRANGERS_MAX. */
void web_clients_bound(struct web *w);
/* false: none can. */
bool web_clients_give_way(struct web *w);
/* What evhttp did not end; after evhttp_free(). */
void web_clients_free(struct web *w);

/* web_refusal.c: an error page that evhttp put into an empty output by itself becomes one of our form. false: there is none. */
struct evbuffer;
bool web_refusal_rewrite(struct evbuffer *output);

#endif
