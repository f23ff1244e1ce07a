/*
 * Who may ask. Pages of other sites cannot read us (no CORS), are not believed when they post (token, Sec-Fetch-Site,
 * Origin), and cannot make their name ours (the Host must be one of ours).
 */
#include <arpa/inet.h>

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <event2/http.h>
#include <event2/keyvalq_struct.h>

#include "admin/web_call.h"

#include "common/alloc.h"
#include "common/nitems.h"

static const char *header(const struct web_call *call, const char *name)
{
	return evhttp_find_header(evhttp_request_get_input_headers(call->req), name);
}

/* ---- form ---- */

/* Two of them are two opinions; ours and a proxy's must be one. */
static size_t count(const struct web_call *call, const char *name)
{
	const struct evkeyval *h;
	size_t n = 0;

	TAILQ_FOREACH(h, evhttp_request_get_input_headers(call->req), next)
		n += strcasecmp(h->key, name) == 0;
	return n;
}

static const char *doubled(const struct web_call *call)
{
	static const char *const once[] = { "Host", "Authorization", "Origin", "Sec-Fetch-Site", "Content-Length", "Transfer-Encoding" };

	for (size_t i = 0; i < nitems(once); i++)
		if (count(call, once[i]) > 1)
			return once[i];
	return NULL;
}

static bool has_body(const struct web_call *call)
{
	const char *length = header(call, "Content-Length");

	return header(call, "Transfer-Encoding") != NULL || (length != NULL && strcmp(length, "0") != 0);
}

/* ---- our names ---- */

/* "name:port", "[::1]:port" without the port and the brackets. -1: it is none. */
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
	if (len == 0 || len >= size || (rest[0] != '\0' && (rest[0] != ':' || rest[1 + strspn(rest + 1, "0123456789")] != '\0')))
		return -1;
	memcpy(host, text, len);
	host[len] = '\0';
	return 0;
}

/* A number is no name that somebody could have pointed at us. */
static bool is_address(const char *host, bool *loopback)
{
	struct in_addr four;
	struct in6_addr six;

	if (inet_pton(AF_INET, host, &four) == 1) {
		*loopback = (ntohl(four.s_addr) >> 24) == 127;
		return true;
	}
	*loopback = inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
	return inet_pton(AF_INET6, host, &six) == 1;
}

static bool is_our_name(const struct web_settings *s, const char *host)
{
	bool loopback;

	if (strcasecmp(host, "localhost") == 0 || strcasecmp(host, s->host) == 0)
		return true;
	if (is_address(host, &loopback))
		return loopback || !s->loopback;
	for (size_t i = 0; s->names != NULL && s->names[i] != NULL; i++)
		if (strcasecmp(host, s->names[i]) == 0)
			return true;
	return false;
}

int web_gate_request(struct web_call *call)
{
	const char *twice = doubled(call), *name = header(call, "Host");
	char host[256];

	if (twice != NULL) {
		web_answer_error(call, 400, "the header %s is there more than once", twice);
		return -1;
	}
	if (evhttp_uri_get_scheme(evhttp_request_get_evhttp_uri(call->req)) != NULL || evhttp_uri_get_host(evhttp_request_get_evhttp_uri(call->req)) != NULL) {
		web_answer_error(call, 400, "this is no proxy: the address begins with a single slash");
		return -1;
	}
	if (name == NULL || host_of(name, host, sizeof(host)) == -1) {
		web_answer_error(call, 400, "the request does not say in a header Host which server it means");
		return -1;
	}
	if (!is_our_name(&call->w->settings, host)) {
		web_answer_error(call, 421, "this is not %s: web.hosts lists the names that this console answers to", host);
		return -1;
	}
	if (has_body(call)) {
		web_answer_error(call, 413, "requests have no body here: everything is in the address");
		return -1;
	}
	return 0;
}

/* ---- who, and from where ---- */

/* In a time that does not tell how much of it was right; libbsd has no timingsafe_bcmp() everywhere. */
static bool is_same(const char *a, const char *b, size_t len)
{
	volatile unsigned char differs = 0;

	for (size_t i = 0; i < len; i++)
		differs = (unsigned char)(differs | (a[i] ^ b[i]));
	return differs == 0;
}

static bool has_token(const struct web_call *call)
{
	const char *said = header(call, "Authorization"), *token = call->w->settings.token;
	size_t len = strlen(token);

	if (said == NULL || strncasecmp(said, "Bearer ", 7) != 0)
		return false;
	said += 7 + strspn(said + 7, " ");
	return strlen(said) == len && is_same(said, token, len);
}

/* A page of ours, or no page at all. */
static bool is_from_here(const struct web_call *call)
{
	const char *site = header(call, "Sec-Fetch-Site"), *origin = header(call, "Origin"), *host = header(call, "Host");

	if (site != NULL && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
		return false;
	if (origin == NULL)
		return true;
	if (strncmp(origin, "http://", 7) == 0)
		return strcasecmp(origin + 7, host) == 0;
	return strncmp(origin, "https://", 8) == 0 && strcasecmp(origin + 8, host) == 0;	/* TLS ends in front of us */
}

int web_gate_route(struct web_call *call)
{
	const struct web_settings *s = &call->w->settings;
	const struct web_route *r = call->route;

	/* others could not read the answer, but make us work for it */
	if (!r->open && !is_from_here(call)) {
		web_answer_error(call, 403, "a page of another site asked for this");
		return -1;
	}
	if ((r->post || (!s->loopback && !r->open)) && !has_token(call)) {
		web_answer_header(call, "WWW-Authenticate", "Bearer");
		web_answer_error(call, 401, "this needs the token: a header Authorization: Bearer and the token that quredis web showed, or web.token_file holds");
		return -1;
	}
	if (r->post && s->read_only) {
		web_answer_error(call, 403, "this console changes nothing (web.read_only)");
		return -1;
	}
	return 0;
}
