/* Checks a request, and calls the handler of its route. It checks form, address, method, permission and parameters, in
 * this order. */
#include <stdlib.h>
#include <string.h>

#include <bsd/unistd.h>
#include <event2/bufferevent.h>
#include <event2/http.h>

#include "admin/web/call.h"

#include "admin/cli/cli.h"
#include "common/base/base.h"

static const char *method_name(enum evhttp_cmd_type method)
{
	return method == EVHTTP_REQ_POST ? "POST" : method == EVHTTP_REQ_HEAD ? "HEAD" : "GET";
}

void web_call_not_found(struct web_call *call)
{
	const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(call->req)),
	    *near = web_route_nearest(path);
	char *shown = visible(path, strlen(path), 200);

	if (near != NULL)
		web_answer_error(call, 404, "there is no %s (did you mean %s?)", shown, near);
	else
		web_answer_error(call, 404, "there is no %s", shown);
	free(shown);
}

void web_call_identified(struct web_call *call)
{
	call->is_known = true;
	web_client_is_known(call->w, evhttp_request_get_connection(call->req));
}

void web_call_reroute(struct web_call *call, const struct web_route *route)
{
	call->route = route;
}

/* NULL: there is none, and the error was sent. */
static const struct web_route *find_route(struct web_call *call, const char *path, enum evhttp_cmd_type method)
{
	const struct web_route *get = web_route_find(path, false), *post = web_route_find(path, true);

	if (get != NULL && (method == EVHTTP_REQ_GET || method == EVHTTP_REQ_HEAD))
		return get;
	if (post != NULL && method == EVHTTP_REQ_POST)
		return post;
	if (get == NULL && post == NULL) {
		web_call_not_found(call);
	} else {
		web_answer_header(call, "Allow", post != NULL ? "POST" : "GET, HEAD");
		web_answer_error(call, 405, "this address takes %s only", post != NULL ? "POST" : "GET");
	}
	return NULL;
}

const char *web_call_header(const struct web_call *call, const char *name)
{
	return evhttp_find_header(evhttp_request_get_input_headers(call->req), name);
}

/* The sender, the method and the URI, for the log. Made at the start, because the client may be gone at the end. */
static char *what_of(const struct web_call *call, enum evhttp_cmd_type method)
{
	struct evhttp_connection *connection = evhttp_request_get_connection(call->req);
	const char *uri = evhttp_request_get_uri(call->req);
	char *peer = "?";
	ev_uint16_t port = 0;
	uid_t uid;
	gid_t gid;

	if (call->w->settings.path != NULL &&
	    getpeereid(bufferevent_getfd(evhttp_connection_get_bufferevent(connection)), &uid, &gid) == 0)
		return alloc_format("uid %u: %s %s", uid, method_name(method), uri);
	evhttp_connection_get_peer(connection, &peer, &port);
	return alloc_format("%s port %d: %s %s", peer, port, method_name(method), uri);
}

void web_call_begin(struct evhttp_request *req, void *arg)
{
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
	enum evhttp_cmd_type method = evhttp_request_get_command(req);
	struct web_call *call = alloc_zero(1, sizeof(*call));
	const char *path = evhttp_uri_get_path(uri);
	const struct web_route *route;
	char *why;

	*call = (struct web_call){ .w = arg, .req = req };
	web_client_asked(arg, req);
	if (method == EVHTTP_REQ_POST)
		call->what = what_of(call, method);
	if (web_gate_request(call) == -1)
		return;
	route = find_route(call, path == NULL || path[0] == '\0' ? "/" : path, method);
	if (route == NULL)
		return;			/* the error was sent, and call is freed */
	web_call_reroute(call, route);
	if (web_access_check(call) == -1)
		return;
	if (!call->route->any_query && web_query_parse(&call->query, evhttp_uri_get_query(uri), call->route->takes,
	    call->route->needs, &why) == -1) {
		web_answer_error(call, 400, "%s", why);
		free(why);
		return;
	}
	call->route->serve(call);
}
