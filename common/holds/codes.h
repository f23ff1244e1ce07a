#ifndef COMMON_HOLDS_CODES_H
#define COMMON_HOLDS_CODES_H

/*
 * The codes of health: each is a reason why a queue is degraded or unhealthy. This is the only list of those that judge
 * a figure; the codes of holds stand in their table. A row has
 *	name		in reports
 *	unit		of its value and limit
 *	checks		of doctor that find the cause, too
 *	before, after	the command that shows more: its words before and after the name of the queue. NULL: the text
 *			of the reason says enough
 *	page		of the console that explains it; NULL: that of the queue
 * sweeper/report/health_codes.c has the figure, the limits and the text of each.
 */
#define CODES_TABLE(X) \
	X(INGRESS, .name = "ingress", .unit = "messages", .before = "trend", .after = " --since 6h") \
	X(TRANSIT, .name = "transit", .unit = "messages", .before = "peek", .after = " transit") \
	X(DEAD_LETTERS, .name = "dead_letters", .unit = "messages", .before = "dlq stats", .after = "", \
	    .page = "dead-letters") \
	X(STUCK, .name = "stuck", .unit = "messages", .before = "peek", .after = " transit") \
	X(DELAYED, .name = "delayed", .unit = "messages", .before = "peek", .after = " delayed") \
	X(OLDEST_AGE, .name = "oldest_age", .unit = "ms", .before = "trend", .after = " --since 6h") \
	X(GROWTH, .name = "growth", .unit = "ms", .before = "trend", .after = " --since 6h") \
	X(FAILURES, .name = "failures", .unit = "percent", .before = "stats", .after = "") \
	X(ORPHANS, .name = "orphans", .unit = "registrations and messages", .checks = { "registrations", "lost" }) \
	X(PAUSED, .name = "paused", .unit = "ms", .checks = { "paused" }) \
	X(ARCHIVE, .name = "archive", .unit = "1 or 0", .page = "dead-letters") \
	X(BOUNDS, .name = "bounds", .unit = "1 or 0", .checks = { "bounds" }, .page = "dead-letters") \
	X(LEFTOVERS, .name = "leftovers", .unit = "processes") \
	X(ASIDE, .name = "aside", .unit = "messages")

struct code_words {
	const char *name, *unit, *checks[2], *before, *after, *page;
};

#endif
