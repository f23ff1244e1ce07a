/*
 * Requests that evhttp refuses by itself: not HTTP, too long, unknown method. Its answer is a page of HTML. This file
 * replaces the page in the output buffer, before it is written: the same status, the headers of the console, and an
 * error in JSON.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <event2/buffer.h>
#include <jansson.h>

#include "admin/web/call.h"

#include "common/base/base.h"

static const char *words_of(int code)
{
	static const struct { int code; const char *words; } known[] = {
		{ 400, "not a valid HTTP request, or its head is larger than 16 KiB" },
		{ 413, "request bodies are not accepted: put all parameters into the query string" },
		{ 417, "the only supported value of Expect is 100-continue" },
		{ 501, "unsupported method: use GET to read and POST to change something" },
	};

	for (size_t i = 0; i < nitems(known); i++)
		if (known[i].code == code)
			return known[i].words;
	return "the request cannot be served";
}

static bool is_replaced(const char *header)
{
	return strncasecmp(header, "Content-Type:", 13) == 0 || strncasecmp(header, "Content-Length:", 15) == 0;
}

/* The head of the page without the headers about its body. */
static struct evbuffer *take_head(struct evbuffer *output)
{
	struct evbuffer *head = evbuffer_new();
	char *line;

	if (head == NULL)
		alloc_failed();
	while ((line = evbuffer_readln(output, NULL, EVBUFFER_EOL_CRLF)) != NULL && *line != '\0') {
		/* evhttp repeats the version of the request, also an invalid one */
		if (evbuffer_get_length(head) == 0)
			evbuffer_add_printf(head, "HTTP/1.1%s\r\n", line + strcspn(line, " "));
		else if (!is_replaced(line))
			evbuffer_add_printf(head, "%s\r\n", line);
		free(line);
	}
	free(line);
	return head;
}

/* The status in "HTTP/1.1 400 ..."; 0: another form. */
static int code_of(struct evbuffer *output)
{
	char start[sizeof("HTTP/-2147483648.-2147483648 400")] = "";
	int code;

	evbuffer_copyout(output, start, sizeof(start) - 1);
	return sscanf(start, "HTTP/%*d.%*d %3d", &code) == 1 ? code : 0;
}

static bool rewrite(struct evbuffer *output)
{
	int code = code_of(output);
	struct evbuffer *answer;
	json_t *error;
	char *document;

	if (code < 400)			/* 100 Continue */
		return false;
	answer = take_head(output);
	error = json_pack("{s:s}", "error", words_of(code));
	document = json_dumps(error, JSON_COMPACT);
	web_answer_print_headers(answer);
	evbuffer_add_printf(answer, "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n", strlen(document));
	if (evbuffer_get_length(output) > 0)	/* otherwise the request was a HEAD */
		evbuffer_add(answer, document, strlen(document));
	evbuffer_drain(output, evbuffer_get_length(output));
	evbuffer_add_buffer(output, answer);
	evbuffer_free(answer);
	free(document);
	json_decref(error);
	return true;
}

/* A bufferevent freezes the front of its output between writes, so that nothing can be removed there. */
bool web_refusal_rewrite(struct evbuffer *output)
{
	bool rewritten;

	evbuffer_unfreeze(output, 1);
	rewritten = rewrite(output);
	evbuffer_freeze(output, 1);
	return rewritten;
}
