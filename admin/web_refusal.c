/*
 * What evhttp refuses before it asks us: no request, too long, no such method. It knows but one page of HTML for it, so
 * that page is replaced where it waits to be written: same status, our headers, an error as all others.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <event2/buffer.h>
#include <jansson.h>

#include "admin/web_call.h"

#include "common/alloc.h"
#include "common/nitems.h"

static const char *words_of(int code)
{
	static const struct { int code; const char *words; } known[] = {
		{ 400, "this is no request of HTTP/1.1, or its head is larger than 16 KiB" },
		{ 413, "requests have no body here: everything is in the address" },
		{ 417, "nothing can be expected of this server but 100-continue" },
		{ 501, "there is no such method here: what looks is a GET, what changes something a POST" },
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

/* The head that evhttp made, but for what told of its page. */
static struct evbuffer *take_head(struct evbuffer *output)
{
	struct evbuffer *head = evbuffer_new();
	char *line;

	if (head == NULL)
		alloc_failed();
	while ((line = evbuffer_readln(output, NULL, EVBUFFER_EOL_CRLF)) != NULL && *line != '\0') {
		if (evbuffer_get_length(head) == 0)		/* evhttp repeats the version of the request, however odd */
			evbuffer_add_printf(head, "HTTP/1.1%s\r\n", line + strcspn(line, " "));
		else if (!is_replaced(line))
			evbuffer_add_printf(head, "%s\r\n", line);
		free(line);
	}
	free(line);
	return head;
}

/* "HTTP/1.1 400 ..."; 0: another beginning. */
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
	if (evbuffer_get_length(output) > 0)	/* else it was a HEAD */
		evbuffer_add(answer, document, strlen(document));
	evbuffer_drain(output, evbuffer_get_length(output));
	evbuffer_add_buffer(output, answer);
	evbuffer_free(answer);
	free(document);
	json_decref(error);
	return true;
}

/* A bufferevent keeps the front of its output frozen between writes: nothing could be taken from it. */
bool web_refusal_rewrite(struct evbuffer *output)
{
	bool rewritten;

	evbuffer_unfreeze(output, 1);
	rewritten = rewrite(output);
	evbuffer_freeze(output, 1);
	return rewritten;
}
