#ifndef ADMIN_WEB_CLIENT_H
#define ADMIN_WEB_CLIENT_H

#include <stdbool.h>

#include <bsd/sys/queue.h>

struct bufferevent;
struct evhttp_connection;
struct evhttp_request;
struct web;

/*
 * The connections. A request must be complete WEB_REQUEST_MS after the connection began, or after the previous answer
 * was sent; the time for an answer is not limited here. If there is no room for a connection, the client that has been
 * sending a request for the longest time is closed, or, if there is none, the one that has been reading its answer for
 * the longest time. The latter is also closed if clients leave more than WEB_UNREAD_MAX bytes of answers unread.
 *
 * A connection belongs to a stranger until a request on it came with the token or a session. There are at most
 * WEB_STRANGERS_MAX such connections, and they are closed first: the other descriptors are kept for holders of the
 * token or a session, and for pipes to children.
 */
#define WEB_REQUEST_MS 10000
#define WEB_STRANGERS_MAX 192
#define WEB_UNREAD_MAX ((size_t)64 * 1024 * 1024)

TAILQ_HEAD(web_clients, web_client);	/* ordered by when they entered their state, the oldest first */

void web_clients_init(struct web_clients *all);
/* For evhttp, which needs one for each new connection. NULL: libevent failed. */
struct bufferevent *web_client_new(struct web *w);
/* Notes that the request of this client is complete. */
void web_client_asked(struct web *w, struct evhttp_request *req);
/* A request on this connection came with the token or a session: it is not a stranger any more. */
void web_client_is_known(struct web *w, struct evhttp_connection *connection);
/* true: the client sent a NUL byte. evhttp ends a line there, so it may have read another request than a proxy did. */
bool web_client_sent_nul(struct web *w, const struct evhttp_connection *connection);
/* The whole answer was passed to libevent. */
void web_client_answered(struct web *w, struct evhttp_connection *connection);
/* gone(arg) is called once when the connection ends. */
void web_client_on_gone(struct web *w, struct evhttp_connection *connection, void (*gone)(void *arg), void *arg);
/* Closes one stranger's connection if there are WEB_STRANGERS_MAX. */
void web_clients_bound(struct web *w);
/* Closes a connection to make room. false: none can be closed. */
bool web_clients_give_way(struct web *w);
/* Frees what evhttp_free() left; call it afterwards. */
void web_clients_free(struct web *w);

/* web/refusal.c: turns an error page of evhttp, alone in the output, into an error of the console. false: there is
 * none. */
struct evbuffer;
bool web_refusal_rewrite(struct evbuffer *output);

#endif
