/*
 * Decides which requests are allowed. A program sends the token; a browser has a session (web/session.h); on a unix
 * socket the kernel names the user of the peer. Browsers also send requests on behalf of pages of other sites. Such a
 * page cannot read an answer (the console sends no CORS headers), and its request is refused by the headers that the
 * browser adds (Sec-Fetch-Site, Origin).
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <event2/bufferevent.h>
#include <event2/http.h>
#include <jansson.h>

#include "admin/web/call.h"

#include "common/base/base.h"

/* ---- token and code ---- */

/* Returns the credentials that follow this scheme in the header Authorization; NULL: another scheme, or no header. */
static const char *credentials(const struct web_call *call, const char *scheme)
{
	const char *said = web_call_header(call, "Authorization");
	size_t len = strlen(scheme);

	if (said == NULL || strncasecmp(said, scheme, len) != 0 || said[len] != ' ')
		return NULL;
	return said + len + strspn(said + len, " ");
}

static bool has_token(const struct web_call *call)
{
	const char *said = credentials(call, "Bearer");

	return said != NULL && web_secret_is(said, call->w->settings.token);
}

/* Consumes the code: it is good for one request. */
static bool has_code(const struct web_call *call)
{
	const char *said = credentials(call, "Code");

	return said != NULL && web_sessions_take_code(&call->w->sessions, said, clock_boottime_ms());
}

/* ---- sessions ---- */

/* Browsers send a cookie to every port of a host: consoles on several ports must not overwrite each other's. */
static void cookie_name(const struct web_settings *s, char name[32])
{
	snprintf(name, 32, "quredis%s%s", s->path == NULL ? "-" : "", s->path == NULL ? s->port : "");
}

/* The id in our cookie; "": there is none. */
static void cookie_of(const struct web_call *call, char id[WEB_SECRET_SIZE])
{
	const char *at = web_call_header(call, "Cookie");
	char name[32];
	size_t len, value;

	cookie_name(&call->w->settings, name);
	len = strlen(name);
	id[0] = '\0';
	for (; at != NULL && *at != '\0'; at += strspn(at, "; ")) {
		value = strcspn(at, ";");
		if (strncmp(at, name, len) == 0 && at[len] == '=' && value - len - 1 == WEB_SECRET_SIZE - 1) {
			memcpy(id, at + len + 1, WEB_SECRET_SIZE - 1);
			id[WEB_SECRET_SIZE - 1] = '\0';
		}
		at += value;
	}
}

static bool has_session(const struct web_call *call)
{
	const char *key = web_call_header(call, "X-Quredis-Session");
	char id[WEB_SECRET_SIZE];

	cookie_of(call, id);
	return key != NULL && web_sessions_has(&call->w->sessions, id, key, clock_boottime_ms());
}

/* ---- from where ---- */

/* Behind a proxy the peer is always the proxy, so its user proves nothing about the client. */
static bool is_trusted_peer(const struct web_call *call)
{
	const struct web_settings *s = &call->w->settings;
	struct evhttp_connection *connection = evhttp_request_get_connection(call->req);

	return s->path != NULL && !s->behind_proxy &&
	    unix_socket_peer_is_allowed(bufferevent_getfd(evhttp_connection_get_bufferevent(connection)));
}

/* True: the request comes from one of our pages, or from a program without pages, such as curl. */
static bool is_from_here(const struct web_call *call)
{
	const char *site = web_call_header(call, "Sec-Fetch-Site"), *origin = web_call_header(call, "Origin"),
	    *host = web_call_header(call, "Host");

	if (site != NULL && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
		return false;
	if (origin == NULL)
		return true;
	if (strncmp(origin, "http://", 7) == 0)
		return strcasecmp(origin + 7, host) == 0;
	/* TLS ends in front of us */
	return strncmp(origin, "https://", 8) == 0 && strcasecmp(origin + 8, host) == 0;
}

/* ---- the decision ---- */

static bool is_enough(const struct web_call *call)
{
	const struct web_route *r = call->route;

	return call->is_known || r->access != WEB_ACCESS_HOLDERS ||
	    (!r->post && call->w->settings.public_reads && call->is_our_name);
}

int web_access_check(struct web_call *call)
{
	const struct web_route *r = call->route;

	/* a page of another site could not read the answer, but it could cause work */
	if (r->access != WEB_ACCESS_ALL && !is_from_here(call)) {
		web_answer_error(call, 403, "the request comes from a page of another site");
		return -1;
	}
	if (has_token(call) || has_session(call) || is_trusted_peer(call))
		web_call_identified(call);
	if (!is_enough(call)) {
		web_answer_header(call, "WWW-Authenticate", "Bearer");
		web_answer_error(call, 401,
		    "sign in, or send the header Authorization: Bearer TOKEN with the token that quredis web showed "
		    "or web.token_file holds");
		return -1;
	}
	if (r->post && r->access == WEB_ACCESS_HOLDERS && call->w->settings.read_only) {
		web_answer_error(call, 403, "this console is read-only (web.read_only)");
		return -1;
	}
	return 0;
}

/* ---- POST /api/v1/session, /api/v1/session/end ---- */

/* The cookie is Secure if the page came over TLS; a proxy terminates it. */
static void set_cookie(struct web_call *call, const char *id, int64_t age_s)
{
	const char *origin = web_call_header(call, "Origin");
	bool tls = origin != NULL && strncmp(origin, "https://", 8) == 0;
	char name[32], *cookie;

	cookie_name(&call->w->settings, name);
	cookie = alloc_format("%s=%s; Path=/; Max-Age=%lld; HttpOnly; SameSite=Strict%s", name, id, (long long)age_s,
	    tls ? "; Secure" : "");
	web_answer_header(call, "Set-Cookie", cookie);
	free(cookie);
}

void web_session_begin(struct web_call *call)
{
	const struct web_session *session;
	char *document;
	json_t *answer;

	if (!call->is_known && !has_code(call)) {
		web_answer_header(call, "WWW-Authenticate", "Bearer");
		web_answer_error(call, 401, credentials(call, "Code") == NULL ? "wrong token"
		    : "this code is wrong, was used already, is older than %lld minutes, or was replaced: send "
		    "SIGUSR1 to quredis web to get a new one", (long long)WEB_CODE_MS / 60000);
		return;
	}
	session = web_sessions_open(&call->w->sessions, clock_boottime_ms());
	set_cookie(call, session->id, WEB_SESSION_MS / 1000);
	answer = json_pack("{s:s, s:I}", "key", session->key, "seconds", (json_int_t)(WEB_SESSION_MS / 1000));
	document = json_dumps(answer, JSON_COMPACT);
	web_answer(call, 200, "application/json", document, strlen(document));
	free(document);
	json_decref(answer);
}

void web_session_end(struct web_call *call)
{
	static const char done[] = "{\"ended\":true}", none[] = "{\"ended\":false}";
	bool had = has_session(call);
	char id[WEB_SECRET_SIZE];

	cookie_of(call, id);
	if (had) {
		web_sessions_close(&call->w->sessions, id);
		set_cookie(call, "", 0);
	}
	web_answer(call, 200, "application/json", had ? done : none, strlen(had ? done : none));
}
