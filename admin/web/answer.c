/* Answers: the headers of every answer, errors as JSON, and the line in the log. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>
#include <event2/http.h>
#include <jansson.h>

#include "admin/web/call.h"

#include "admin/cli/cli.h"
#include "common/base/base.h"

static const struct { const char *name, *value; } always[] = {
	{ "Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
	    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'" },
	{ "X-Content-Type-Options", "nosniff" },
	{ "Referrer-Policy", "no-referrer" },
	{ "Cross-Origin-Opener-Policy", "same-origin" },
	{ "Cross-Origin-Resource-Policy", "same-origin" },
};

void web_answer_header(struct web_call *call, const char *name, const char *value)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(call->req);

	evhttp_remove_header(headers, name);
	evhttp_add_header(headers, name, value);
}

void web_answer_print_headers(struct evbuffer *head)
{
	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		evbuffer_add_printf(head, "%s: %s\r\n", always[i].name, always[i].value);
	evbuffer_add_printf(head, "Cache-Control: no-store\r\n");
}

void web_answer_headers(struct web_call *call)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(call->req);

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		evhttp_add_header(headers, always[i].name, always[i].value);
	/* figures change, so browsers cache nothing unless the handler of the route allows it */
	if (evhttp_find_header(headers, "Cache-Control") == NULL)
		evhttp_add_header(headers, "Cache-Control", "no-store");
}

/* Logs the sender of a request that changes something, the request, and the status of the answer. */
static void log_call(const struct web_call *call, const char *outcome)
{
	char stamp[CLOCK_RFC3339_SIZE];

	if (call->what != NULL)
		admin_note("%s %s: %s", clock_rfc3339(clock_realtime_ms(), stamp), call->what, outcome);
}

void web_call_end(struct web_call *call)
{
	web_query_free(&call->query);
	free(call->what);
	free(call);
}

/* If the client has closed the connection, this file frees the request; otherwise evhttp frees it with its
 * connection. */
void web_call_drop(void *arg)
{
	struct web_call *call = arg;

	log_call(call, "not answered: the console ended");
	if (evhttp_request_get_connection(call->req) == NULL)
		evhttp_request_free(call->req);
	web_call_end(call);
}

void web_answer(struct web_call *call, int code, const char *type, const void *data, size_t len)
{
	struct evhttp_connection *connection = evhttp_request_get_connection(call->req);
	struct evbuffer *body = evbuffer_new();
	char number[24];

	snprintf(number, sizeof(number), "%d", code);
	log_call(call, number);
	web_answer_headers(call);
	if (type != NULL)
		web_answer_header(call, "Content-Type", type);
	if (evhttp_request_get_command(call->req) == EVHTTP_REQ_HEAD) {
		snprintf(number, sizeof(number), "%zu", len);
		web_answer_header(call, "Content-Length", number);
		len = 0;
	}
	if (body == NULL || (len > 0 && evbuffer_add(body, data, len) == -1))
		alloc_failed();
	evhttp_send_reply(call->req, code, NULL, body);
	evbuffer_free(body);
	if (connection != NULL)
		web_client_answered(call->w, connection);
	web_call_end(call);
}

/* The text may not be UTF-8, such as a message of strerror() in another locale; JSON must be. */
struct json_t *web_answer_words(const char *text)
{
	json_t *words = json_string(text);
	char *shown;

	if (words != NULL)
		return words;
	shown = visible(text, strlen(text), SIZE_MAX);
	for (char *c = shown; *c != '\0'; c++)
		*c = (signed char)*c < 0 ? '?' : *c;
	words = json_string(shown);
	free(shown);
	return words;
}

void web_answer_error(struct web_call *call, int code, const char *fmt, ...)
{
	char *text = NULL, *document;
	json_t *error;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) == -1)
		alloc_failed();
	va_end(ap);
	error = json_pack("{s:o}", "error", web_answer_words(text));
	document = json_dumps(error, JSON_COMPACT);
	json_decref(error);
	free(text);
	web_answer(call, code, "application/json", document, strlen(document));
	free(document);
}
