/* The table of addresses: the command or handler and the parameters of each. docs/api.md describes them. */
#include <string.h>

#include "admin/web/call.h"

#include "common/base/base.h"

#define API "/api/v1/"
#define COMMAND(is_post, name, words, taken, needed) \
	{ .post = is_post, .path = API name, .serve = web_command, .command = words, .takes = taken, .needs = needed }
#define GET(path, command, takes, needs) COMMAND(false, path, command, takes, needs)
#define POST(path, command, takes, needs) COMMAND(true, path, command, takes, needs)

static const struct web_route routes[] = {
	GET("queues", "ls", 0, 0),
	GET("queue/health", "health", WEB_QUEUE, 0),
	GET("queue/stats", "stats", WEB_QUEUE | WEB_SINCE, 0),
	GET("queue/trend", "trend", WEB_QUEUE | WEB_SINCE, WEB_QUEUE),
	GET("queue/messages", "peek", WEB_QUEUE | WEB_LIST | WEB_LIMIT | WEB_TEXT, WEB_QUEUE | WEB_LIST),
	GET("queue/dlq", "dlq ls", WEB_QUEUE | WEB_LIMIT | WEB_FILTER | WEB_BEFORE, WEB_QUEUE),
	GET("queue/dlq/stats", "dlq stats", WEB_QUEUE | WEB_LIMIT | WEB_FILTER, WEB_QUEUE),
	GET("queue/dlq/record", "dlq show", WEB_QUEUE | WEB_ID, WEB_QUEUE | WEB_ID),
	GET("queue/done", "done ls", WEB_QUEUE | WEB_LIMIT, WEB_QUEUE),
	GET("queue/stale", "stale", WEB_QUEUE, 0),
	GET("operations", "operations", WEB_QUEUE, 0),
	GET("schedules", "schedule", 0, 0),
	GET("supervisor", "status", 0, 0),
	GET("nodes", "nodes", 0, 0),
	GET("doctor", "doctor", 0, 0),

	{ .post = true, .path = API "queue/purge", .serve = web_purge, .command = "purge",
	    .takes = WEB_QUEUE | WEB_LIST | WEB_DRY_RUN },
	POST("queue/retry", "retry", WEB_QUEUE | WEB_LIST_BACK | WEB_DRY_RUN, WEB_QUEUE | WEB_LIST_BACK),
	POST("queue/message/retry", "retry", WEB_QUEUE | WEB_LIST_SINGLE | WEB_ID | WEB_DRY_RUN,
	    WEB_QUEUE | WEB_LIST_SINGLE | WEB_ID),
	POST("queue/message/rm", "rm", WEB_QUEUE | WEB_LIST_SINGLE | WEB_ID | WEB_DRY_RUN,
	    WEB_QUEUE | WEB_LIST_SINGLE | WEB_ID),
	POST("queue/message/cancel", "cancel", WEB_QUEUE | WEB_ID | WEB_CANCEL | WEB_DRY_RUN, WEB_QUEUE | WEB_ID),
	POST("queue/dlq/retry", "dlq retry", WEB_QUEUE | WEB_ID | WEB_ALL | WEB_FILTER | WEB_PACE | WEB_DRY_RUN,
	    WEB_QUEUE),
	POST("queue/dlq/rm", "dlq rm", WEB_QUEUE | WEB_ID | WEB_ALL | WEB_FILTER | WEB_ANEW | WEB_DRY_RUN, WEB_QUEUE),
	POST("queue/operation/stop", "operations", WEB_QUEUE | WEB_STOP | WEB_DRY_RUN, WEB_QUEUE | WEB_STOP),
	POST("schedule/run", "schedule run", WEB_SCHEDULE | WEB_FORCE | WEB_DRY_RUN, WEB_SCHEDULE),
	POST("queue/pause", "pause", WEB_QUEUE | WEB_DRY_RUN, WEB_QUEUE),
	POST("queue/resume", "resume", WEB_QUEUE | WEB_DRY_RUN, WEB_QUEUE),

	{ .post = true, .path = API "session", .serve = web_session_begin, .access = WEB_ACCESS_NEWCOMERS },
	{ .post = true, .path = API "session/end", .serve = web_session_end, .access = WEB_ACCESS_NEWCOMERS },
	{ .path = API "events", .serve = web_events },
	{ .path = "/metrics", .serve = web_metrics, .any_host = true },
	{ .path = "/livez", .serve = web_live, .access = WEB_ACCESS_ALL, .any_host = true, .any_query = true },
	{ .path = "/readyz", .serve = web_ready, .access = WEB_ACCESS_ALL, .any_host = true, .any_query = true },
};

/* Every other address may be a file of the pages. */
static const struct web_route asset_route = { .path = "/", .serve = web_asset, .access = WEB_ACCESS_ALL };

const struct web_route *web_route_find(const char *path, bool post)
{
	for (size_t i = 0; i < nitems(routes); i++)
		if (routes[i].post == post && strcmp(routes[i].path, path) == 0)
			return &routes[i];
	for (size_t i = 0; i < nitems(routes); i++)
		if (strcmp(routes[i].path, path) == 0)
			return NULL;
	return post || strncmp(path, API, strlen(API)) == 0 ? NULL : &asset_route;
}

const char *web_route_nearest(const char *path)
{
	const char *paths[nitems(routes)];

	for (size_t i = 0; i < nitems(routes); i++)
		paths[i] = routes[i].path;
	return nearest(path, paths, nitems(paths));
}
