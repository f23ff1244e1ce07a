#ifndef ADMIN_WEB_CALL_H
#define ADMIN_WEB_CALL_H

#include "admin/web/query.h"
#include "admin/web/server.h"

struct evbuffer;
struct evhttp_request;

/* A request, until its answer is sent. */
struct web_route;
struct web_call {
	struct web *w;
	struct evhttp_request *req;
	const struct web_route *route;
	struct web_query query;
	char *what;			/* sender, method, path and parameters, for the log; NULL: not logged */
	/* it came with the token or a session, or over a unix socket from an allowed user */
	bool is_known;
	/* Host is a name of this console: otherwise the page of another site may have sent it */
	bool is_our_name;
};

struct web_route {
	bool post;			/* POST, which changes something; otherwise GET and HEAD */
	const char *path;
	void (*serve)(struct web_call *call);	/* takes ownership of call, and sends an answer now or later */
	const char *command;		/* for web_command(): the words of the command line */
	unsigned takes, needs;		/* WEB_ bits */
	enum web_access {
		/* needs the token or a session; with web.public_reads a request that only reads needs neither */
		WEB_ACCESS_HOLDERS,
		WEB_ACCESS_ALL,		/* public: nothing in the answer is secret */
		WEB_ACCESS_NEWCOMERS	/* the handler of the route checks token and code itself */
	} access;
	bool any_host;			/* it answers whatever Host says: probes and scrapes use the address of a pod */
	bool any_query;			/* it ignores the query: kubelets and load balancers may send one */
};

/* Checks and serves a request. arg is the struct web. */
void web_call_begin(struct evhttp_request *req, void *arg);

void web_call_not_found(struct web_call *call);
/* Notes that the request came with the token or a session: its client is not a stranger any more. */
void web_call_identified(struct web_call *call);
/* Passes the request to another route. */
void web_call_reroute(struct web_call *call, const struct web_route *route);

/* web/routes.c */
const struct web_route *web_route_find(const char *path, bool post);	/* NULL: none */
const char *web_route_nearest(const char *path);	/* NULL: none is similar */

/* Both check a request before its route runs. 0: go on; -1: refused, and the refusal was sent. */
int web_gate_request(struct web_call *call);	/* web/gate.c: the form, and the Host */
/* web/access.c: the sender, the page it comes from, and web.read_only */
int web_access_check(struct web_call *call);
/* NULL: the request has no such header. */
const char *web_call_header(const struct web_call *call, const char *name);

/* web/answer.c. Sending an answer ends the call. */
void web_answer(struct web_call *call, int code, const char *type, const void *data, size_t len);
void web_answer_error(struct web_call *call, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
struct json_t *web_answer_words(const char *text);	/* a new JSON string, also if text is not UTF-8 */
void web_answer_header(struct web_call *call, const char *name, const char *value);
/* The headers of every answer, for code that sends one without web_answer(). */
void web_answer_headers(struct web_call *call);
void web_answer_print_headers(struct evbuffer *head);	/* the same as text */
void web_call_end(struct web_call *call);
/* Ends a call (void for web_question) without an answer, because the server ends. */
void web_call_drop(void *call);

/* web/command.c: runs the command of the route in a child; its document is the answer. */
void web_command(struct web_call *call);
void web_purge(struct web_call *call);
/* no exit status of sysexits(3): Redis did not answer a request, so it may have taken effect */
#define WEB_ANSWER_LOST 90
/* For a child: runs one command with --json on file, with configuration and Redis of the server. Returns its exit
 * status, or WEB_ANSWER_LOST. */
int web_command_run(const struct admin *server, struct options *options, const char *command, char *const *operands,
    size_t noperands, FILE *file);
/* {"error": ...} for a child that wrote no document. */
void web_command_failure(const struct web_job *job, struct buffer *document);

/* web/assets.c, web/probe.c, web/stream.c, web/metrics.c */
void web_session_begin(struct web_call *call);	/* web/access.c */
void web_session_end(struct web_call *call);
void web_asset(struct web_call *call);
struct buffer;
const struct buffer *web_words(void);		/* words.js; borrowed, it never changes */
void web_live(struct web_call *call);
void web_ready(struct web_call *call);
void web_metrics(struct web_call *call);
void web_events(struct web_call *call);

#endif
