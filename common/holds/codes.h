#ifndef COMMON_HOLDS_CODES_H
#define COMMON_HOLDS_CODES_H

/*
 * The codes of health: each is a reason why a queue is degraded or unhealthy. This is the only list of those that judge
 * a figure; the codes of holds stand in their table. A row has
 *	name		in reports
 *	checks		of doctor that find the cause, too
 *	before, after	the command that shows more, or ends it: its words before and after the name of the queue. NULL:
 *			the text of the reason says enough
 *	page		of the console that explains it; NULL: that of the queue
 * sweeper/report/health_codes.c has the figure, the limits and the text of each.
 */
#define CODES_TABLE(X) \
	X(INGRESS, .name = "ingress", .before = "trend", .after = " --since 6h") \
	X(TRANSIT, .name = "transit", .before = "peek", .after = " transit") \
	X(DEAD_LETTERS, .name = "dead_letters", .before = "dlq stats", .after = "", .page = "dead-letters") \
	X(STUCK, .name = "stuck", .before = "peek", .after = " transit") \
	X(DELAYED, .name = "delayed", .before = "peek", .after = " delayed") \
	X(OLDEST_AGE, .name = "oldest_age", .before = "trend", .after = " --since 6h") \
	X(GROWTH, .name = "growth", .before = "trend", .after = " --since 6h") \
	X(FAILURES, .name = "failures", .before = "stats", .after = "") \
	X(ORPHANS, .name = "orphans", .checks = { "registrations", "lost" }) \
	X(PAUSED, .name = "paused", .checks = { "paused" }) \
	X(ARCHIVE, .name = "archive", .page = "dead-letters") \
	X(BOUNDS, .name = "bounds", .checks = { "bounds" }, .page = "dead-letters") \
	X(HANDLER_NOT_READY, .name = "handler_not_ready", .checks = { "supervisor", "functions" }, \
	    .before = "restart", .after = "") \
	X(SCALED, .name = "scaled") \
	X(RELOAD_FAILED, .name = "reload_failed", .checks = { "configuration", "supervisor" }) \
	X(LEFTOVERS, .name = "leftovers") \
	X(ASIDE, .name = "aside") \
	X(SCHEDULE_LATE, .name = "schedule_late", .checks = { "schedules" })

struct code_words {
	const char *name, *checks[2], *before, *after, *page;
};

#endif
