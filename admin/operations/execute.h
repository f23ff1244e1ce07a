#ifndef ADMIN_OPERATIONS_EXECUTE_H
#define ADMIN_OPERATIONS_EXECUTE_H

struct conf;
struct conf_queue;
struct queue_keys;
struct redis_target;

/* An operation that a command has given to the leading sweeper. */
struct execution {
	const char *id;
	const struct conf *conf;
	const struct conf_queue *queue;
	const struct queue_keys *keys;
	const struct redis_target *target;
};
/* EXECUTION_FAILED: one line on `out` says why. EXECUTION_ELSEWHERE: another process has it, or it is not wanted any
 * more */
enum { EXECUTED, EXECUTION_FAILED, EXECUTION_ELSEWHERE };

/* For a process of its own, since it opens a connection and may take days. SIGTERM ends it between two steps. Returns
 * one of these. */
int execute(const struct execution *e, int out);

#endif
