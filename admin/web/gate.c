/*
 * Checks the form of a request, and that its Host is one of our names: otherwise a page of another site could point its
 * own DNS name here.
 */
#include <string.h>
#include <strings.h>

#include <event2/http.h>
#include <event2/http_struct.h>
#include <event2/keyvalq_struct.h>

#include "admin/web/call.h"

#include "common/base/base.h"

/* ---- form ---- */

/* If a header occurs twice, a proxy and the console may each use another one. */
static size_t count_headers(const struct web_call *call, const char *name)
{
	const struct evkeyval *h;
	size_t n = 0;

	TAILQ_FOREACH(h, evhttp_request_get_input_headers(call->req), next)
		n += strcasecmp(h->key, name) == 0;
	return n;
}

static const char *doubled(const struct web_call *call)
{
	static const char *const once[] = { "Host", "Authorization", "Cookie", "X-Quredis-Session", "Origin",
	    "Sec-Fetch-Site", "Content-Length",
		"Transfer-Encoding" };

	for (size_t i = 0; i < nitems(once); i++)
		if (count_headers(call, once[i]) > 1)
			return once[i];
	return NULL;
}

/* evhttp accepts headers that a proxy may read differently, such as "Content-Length : 5", or a carriage return in a
 * value. */
static bool has_odd_header(const struct web_call *call)
{
	/* RFC 9110 */
	static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	const struct evkeyval *h;

	TAILQ_FOREACH(h, evhttp_request_get_input_headers(call->req), next) {
		if (h->key[0] == '\0' || h->key[strspn(h->key, token)] != '\0')
			return true;
		for (const char *c = h->value; *c != '\0'; c++)
			if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f)
				return true;
	}
	return false;
}

static bool has_body(const struct web_call *call)
{
	const char *length = web_call_header(call, "Content-Length");

	return web_call_header(call, "Transfer-Encoding") != NULL || (length != NULL && strcmp(length, "0") != 0);
}

/* evhttp ends a line at a line feed, so a carriage return may stand in the target, where a proxy may have read the end
 * of the line. */
static bool has_odd_target(const struct web_call *call)
{
	for (const char *c = evhttp_request_get_uri(call->req); *c != '\0'; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f)
			return true;
	return false;
}

/* ---- our names ---- */

/* The host of "name:port" or "[::1]:port". -1: another form. */
static int host_of(const char *text, char *host, size_t size)
{
	size_t len = text[0] == '[' ? strcspn(text, "]") : strcspn(text, ":");
	const char *rest = text + len;

	if (text[0] == '[') {
		text++;
		len--;
		if (*rest++ != ']')
			return -1;
	}
	if (len == 0 || len >= size || (rest[0] != '\0' &&
	    (rest[0] != ':' || rest[1 + strspn(rest + 1, "0123456789")] != '\0')))
		return -1;
	memcpy(host, text, len);
	host[len] = '\0';
	return 0;
}

static bool is_our_name(const struct web_settings *s, const char *host)
{
	enum address_reach reach = address_reach(host);

	if (strcasecmp(host, "localhost") == 0 || strcasecmp(host, s->host) == 0)
		return true;
	for (size_t i = 0; s->names != NULL && s->names[i] != NULL; i++)
		if (strcasecmp(host, s->names[i]) == 0)
			return true;
	/* another site can point its DNS name here, but not a number */
	return reach == ADDRESS_LOOPBACK || (reach != ADDRESS_NAME && !s->loopback);
}

/*
 * The host in the target "http://host/path", which a client may send to any server. Clients repeat it in Host; a
 * request with two names could be meant for another server. -1: the target has another form, or names another host than
 * Host.
 */
static int check_target(const struct evhttp_uri *uri, const char *host)
{
	const char *scheme = evhttp_uri_get_scheme(uri), *named = evhttp_uri_get_host(uri);
	char target[256];

	if (scheme == NULL && named == NULL)
		return 0;
	if (scheme == NULL || named == NULL || (strcasecmp(scheme, "http") != 0 && strcasecmp(scheme, "https") != 0) ||
	    evhttp_uri_get_userinfo(uri) != NULL)
		return -1;
	return host_of(named, target, sizeof(target)) == 0 && strcasecmp(target, host) == 0 ? 0 : -1;
}

/* Programs that check or measure a console find it by its address, under whatever name, and it shows them nothing
 * without the token. */
static bool answers_to_any_name(const struct web_call *call)
{
	const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(call->req));
	const struct web_route *route = path == NULL ? NULL : web_route_find(path, false);

	return route != NULL && route->any_host;
}

/* The sender may see the end of this request elsewhere, so the bytes that follow must not be read as the next
 * request. */
#define refuse(call, ...) (web_answer_header(call, "Connection", "close"), web_answer_error(call, __VA_ARGS__), -1)

int web_gate_request(struct web_call *call)
{
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(call->req);
	const char *twice = doubled(call), *name = web_call_header(call, "Host");
	bool is_connect = evhttp_request_get_command(call->req) == EVHTTP_REQ_CONNECT;
	char host[256];

	if (is_connect)
		call->req->type = EVHTTP_REQ_GET;	/* evhttp never closes the connection of a CONNECT */
	if (call->req->major != 1 || call->req->minor < 0 || call->req->minor > 9) {
		call->req->major = 1;		/* the answer repeats the version */
		call->req->minor = 1;
		return refuse(call, 400, "not an HTTP/1.1 request");
	}
	if (web_client_sent_nul(call->w, evhttp_request_get_connection(call->req)))
		return refuse(call, 400, "the request contains a NUL byte");
	if (twice != NULL)
		return refuse(call, 400, "the header %s occurs more than once", twice);
	if (has_odd_header(call))
		return refuse(call, 400, "a header has an invalid name or value");
	if (has_odd_target(call))
		return refuse(call, 400, "the request target contains a control character");
	if (is_connect)
		return refuse(call, 400, "this server is not a proxy");
	if (name == NULL || host_of(name, host, sizeof(host)) == -1) {
		if (!answers_to_any_name(call))
			return refuse(call, 400, "the header Host is missing or invalid");
		host[0] = '\0';		/* a probe of HTTP/1.0 has none */
	}
	if (check_target(uri, host) == -1)
		return refuse(call, 400,
		    "this server is not a proxy: the request target must be a path such as /api/v1/queues, or name the "
		    "same host as the header Host");
	if (has_body(call))
		return refuse(call, 413, "request bodies are not accepted: put all parameters into the query string");
	call->is_our_name = host[0] != '\0' && is_our_name(&call->w->settings, host);
	if (!call->is_our_name && !answers_to_any_name(call))
		return refuse(call, 421, "this console does not answer to the name %s: add it to web.hosts", host);
	return 0;
}
