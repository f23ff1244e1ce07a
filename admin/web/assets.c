/* The files of the pages are part of the binary, or made from its tables: no request can read any other file. */
#include <stdio.h>
#include <string.h>

#include <event2/http.h>

#include "admin/web/call.h"
#include "admin/web/files.h"

#include "common/base/base.h"
#include "common/message/message.h"

#define X(name, path)                                                                              \
	__asm__(".pushsection .rodata\n"                                                           \
		"web_file_" #name ":\n"                                                            \
		".incbin \"admin/web/assets/" path "\"\n"                                                 \
		"web_file_" #name "_end:\n"                                                        \
		".byte 0\n"                                                                        \
		".popsection\n");                                                                  \
	extern const char web_file_##name[], web_file_##name##_end[];
WEB_FILES(X)
#undef X

static const struct {
	const char *ending, *type;
} types[] = {
	{ ".html", "text/html; charset=utf-8" }, { ".js", "text/javascript; charset=utf-8" },
	{ ".css", "text/css; charset=utf-8" },
	{ ".svg", "image/svg+xml" }, { ".png", "image/png" }, { ".ico", "image/x-icon" },
	{ ".json", "application/json" },
};

static const struct {
	const char *path, *start, *end;
} files[] = {
#define X(name, path) { path, web_file_##name, web_file_##name##_end },
	WEB_FILES(X)
#undef X
};

static const char *type_of(const char *path)
{
	const char *dot = strrchr(path, '.');

	for (size_t i = 0; dot != NULL && i < nitems(types); i++)
		if (strcmp(dot, types[i].ending) == 0)
			return types[i].type;
	return "application/octet-stream";
}

struct content {
	const char *path, *data;
	size_t len;
	char tag[ENCODE_SHA1_SIZE + 2];		/* the entity tag, computed at the first use */
};

/* No file of the folder has the name of the generated one. NULL: there is no such file. */
static struct content *find_content(const char *path)
{
	static struct content all[nitems(files) + 1];

	for (size_t i = 0; i < nitems(all); i++) {
		bool made = i == nitems(files);
		struct content *c = &all[i];

		if (strcmp(made ? "words.js" : files[i].path, path) != 0)
			continue;
		if (c->path == NULL) {
			char sum[ENCODE_SHA1_SIZE];

			c->path = made ? "words.js" : files[i].path;
			c->data = made ? web_words()->data : files[i].start;
			c->len = made ? web_words()->len : (size_t)(files[i].end - files[i].start);
			encode_sha1(c->data, c->len, sum);
			snprintf(c->tag, sizeof(c->tag), "\"%s\"", sum);
		}
		return c;
	}
	return NULL;
}

static bool is_known(const struct web_call *call, const char *tag)
{
	const char *seen = evhttp_find_header(evhttp_request_get_input_headers(call->req), "If-None-Match");

	return seen != NULL && strstr(seen, tag) != NULL;
}

void web_asset(struct web_call *call)
{
	const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(call->req));
	const struct content *c =
	    find_content(path == NULL || path[0] == '\0' || strcmp(path, "/") == 0 ? "index.html" : path + 1);

	if (c == NULL) {
		web_call_not_found(call);
		return;
	}
	web_answer_header(call, "ETag", c->tag);
	web_answer_header(call, "Cache-Control", "no-cache");
	if (is_known(call, c->tag))
		web_answer(call, 304, NULL, NULL, 0);
	else
		web_answer(call, 200, type_of(c->path), c->data, c->len);
}
