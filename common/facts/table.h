/*
 * The rows of facts.h, which describes the columns: one for each figure. The order is that of the members of a report.
 */
#ifndef COMMON_FACTS_TABLE_H
#define COMMON_FACTS_TABLE_H

#define FACTS_TABLE(X) \
	X(INGRESS_SIZE, .object = "ingress", .key = "size", .metric = METRIC_QUEUE_MESSAGES, .label = "ingress", \
	    .listed = "ingress_size", .statsd = "quredis.health.queue.*.size", \
	    .title = "Ingress", .in = IN_HEALTH | IN_TOP, .yields = 15, \
	    .heading = "Waiting", .text = "messages that wait for a worker") \
	X(INGRESS_OLDEST, .object = "ingress", .key = "oldest_age", .type = FACT_AGE, .metric = METRIC_OLDEST_AGE, \
	    .label = "ingress", .statsd = "quredis.health.queue.*.oldest_age", \
	    .title = "Oldest", .in = IN_HEALTH | IN_TOP, .yields = 7, \
	    .text = "how long the oldest message has waited") \
	X(INGRESS_AVERAGE, .object = "ingress", .key = "avg_age", .type = FACT_AGE, .metric = METRIC_AVERAGE_AGE, \
	    .label = "ingress", .heading = "Average age", .text = "how long messages have waited on average") \
	X(INGRESS_STUCK, .object = "ingress", .key = "stuck_count", .metric = METRIC_STUCK, .label = "ingress", \
	    .heading = "Stuck", .text = "messages that have waited for health.thresholds.stuck_age or longer") \
	X(TRANSIT_SIZE, .object = "transit", .key = "size", .metric = METRIC_QUEUE_MESSAGES, .label = "transit", \
	    .listed = "transit_size", .statsd = "quredis.health.queue.*.in_work", \
	    .title = "Transit", .in = IN_HEALTH | IN_TOP, .yields = 13, \
	    .heading = "In flight", .text = "messages that a worker has fetched and not settled") \
	X(TRANSIT_OLDEST, .object = "transit", .key = "oldest_age", .type = FACT_AGE, .metric = METRIC_OLDEST_AGE, \
	    .label = "transit", .heading = "Longest in flight", .text = "how long the longest run has lasted") \
	X(TRANSIT_AVERAGE, .object = "transit", .key = "avg_age", .type = FACT_AGE, .metric = METRIC_AVERAGE_AGE, \
	    .label = "transit", .text = "how long runs have lasted on average") \
	X(TRANSIT_STUCK, .object = "transit", .key = "stuck_count", .metric = METRIC_STUCK, .label = "transit", \
	    .text = "messages in flight for health.thresholds.stuck_age or longer") \
	X(ESCAPE_SIZE, .object = "escape", .key = "size", .metric = METRIC_QUEUE_MESSAGES, .label = "escape", \
	    .listed = "escape_size", .statsd = "quredis.dlq.*.size", \
	    .title = "Escape", .in = IN_HEALTH | IN_TOP, .yields = 14, \
	    .heading = "Dead letters", .text = "messages that became dead letters and were not removed") \
	X(ESCAPE_OLDEST, .object = "escape", .key = "oldest_age", .type = FACT_AGE, .metric = METRIC_OLDEST_AGE, \
	    .label = "escape", .text = "how old the oldest dead letter is") \
	X(ESCAPE_AVERAGE, .object = "escape", .key = "avg_age", .type = FACT_AGE, .metric = METRIC_AVERAGE_AGE, \
	    .label = "escape", .text = "how old dead letters are on average") \
	X(DELAYED_SIZE, .object = "delayed", .key = "size", .metric = METRIC_QUEUE_MESSAGES, .label = "delayed", \
	    .listed = "delayed_size", \
	    .title = "Delayed", .in = IN_LS | IN_TOP, .yields = 9, \
	    .text = "messages that wait for a time: retries, and messages pushed with a delay") \
	X(ALIVE, .object = "workers", .key = "alive", \
	    .title = "Workers", .in = IN_HEALTH_END, .yields = 6, \
	    .text = "workers with a lease, on all hosts") \
	X(ACTIVE, .object = "workers", .key = "active", .metric = METRIC_QUEUE_WORKERS, .label = "active", \
	    .title = "Active", .in = IN_HEALTH_END, .yields = 1, .rare = true, \
	    .text = "workers with messages in flight") \
	X(WAITING, .object = "workers", .key = "waiting", .metric = METRIC_QUEUE_WORKERS, .label = "waiting", \
	    .text = "workers without messages in flight") \
	X(SEATS_TAKEN, .object = "seats", .key = "taken", .metric = METRIC_SEATS, .label = "taken", \
	    .text = "seats of max_in_flight that are taken, on all hosts, by all queues of the throttle") \
	X(SEATS_LIMIT, .object = "seats", .key = "limit", .metric = METRIC_SEATS, .label = "limit", \
	    .text = "seats that max_in_flight allows") \
	X(RATE_DONE, .object = "rates", .key = "done", \
	    .title = "Done/min", .in = IN_HEALTH_END, .yields = 5, \
	    .heading = "Done a minute", .text = "messages done in the last whole minute") \
	X(RATE_FAILED, .object = "rates", .key = "failed", \
	    .heading = "Failed a minute", .text = "attempts that failed in the last whole minute") \
	X(RATE_RETRIED, .object = "rates", .key = "retried", \
	    .text = "messages delayed for a retry in the last whole minute") \
	X(RATE_ESCAPED, .object = "rates", .key = "escaped", \
	    .text = "messages that became dead letters in the last whole minute") \
	X(RATE_EXPIRED, .object = "rates", .key = "expired", .text = "messages that expired in the last whole minute") \
	X(RATE_RESCUED, .object = "rates", .key = "rescued", \
	    .text = "messages of dead workers returned in the last whole minute") \
	X(ENQUEUED, .object = "rates", .key = "enqueued", .text = "messages pushed in a minute, as estimated") \
	X(ATTEMPTS, .object = "failures", .key = "attempts", .text = "attempts that ended in failure_window") \
	X(FAILURES, .object = "failures", .key = "failed", \
	    .heading = "Failed", .text = "attempts that failed in failure_window") \
	X(FAILURE_WINDOW, .object = "failures", .key = "window", .type = FACT_AGE, .text = "length of failure_window") \
	X(ARRIVALS, .object = "growth", .key = "arrivals", .type = FACT_PACE, \
	    .text = "messages that arrive in a minute") \
	X(COMPLETIONS, .object = "growth", .key = "completions", .type = FACT_PACE, \
	    .text = "messages that leave in a minute") \
	X(GROWTH_WINDOW, .object = "growth", .key = "window", .type = FACT_AGE, \
	    .text = "the time between the looks compared") \
	X(GROWING, .object = "growth", .key = "growing", .type = FACT_AGE, \
	    .text = "how long the backlog has grown") \
	X(ORPHAN_REGISTRATIONS, .object = "orphans", .key = "registrations", .metric = METRIC_ORPHAN_REGISTRATIONS, \
	    .text = "registered workers without a lease") \
	X(ORPHAN_MESSAGES, .object = "orphans", .key = "messages", .metric = METRIC_ORPHAN_MESSAGES, \
	    .text = "messages owned by no live worker") \
	X(PAUSED, .key = "paused", .type = FACT_FLAG, .metric = METRIC_PAUSED, .listed = "paused", \
	    .title = "Paused", .in = IN_LS, .yields = 10, \
	    .text = "the queue is paused") \
	X(WANTED, .scope = FACT_OF_HOST, .key = "wanted", \
	    .title = "Workers", .in = IN_NODES | IN_STATUS, .yields = 11, \
	    .text = "workers that the configuration wants") \
	X(STARTING, .scope = FACT_OF_HOST, .object = "workers", .key = "starting", .type = FACT_SOME, \
	    .metric = METRIC_WORKERS, .label = "starting", .text = "workers that start") \
	X(CONNECTING, .scope = FACT_OF_HOST, .object = "workers", .key = "connecting", .type = FACT_SOME, \
	    .metric = METRIC_WORKERS, .label = "connecting", .text = "workers without a connection to Redis") \
	X(HELD, .scope = FACT_OF_HOST, .object = "workers", .key = "waiting", .type = FACT_SOME, \
	    .metric = METRIC_WORKERS, .label = "waiting", .text = "workers that a hold keeps from fetching") \
	X(IDLE, .scope = FACT_OF_HOST, .object = "workers", .key = "idle", .type = FACT_SOME, \
	    .metric = METRIC_WORKERS, .label = "idle", .text = "workers that wait for messages") \
	X(RUNNING, .scope = FACT_OF_HOST, .object = "workers", .key = "running", .type = FACT_SOME, \
	    .metric = METRIC_WORKERS, .label = "running", \
	    .title = "Running", .in = IN_TOP | IN_NODES_END, .yields = 8, .rare = true, \
	    .text = "workers that run a handler") \
	X(SETTLING, .scope = FACT_OF_HOST, .object = "workers", .key = "settling", .type = FACT_SOME, \
	    .metric = METRIC_WORKERS, .label = "settling", .text = "workers that settle messages") \
	X(STOPPING, .scope = FACT_OF_HOST, .object = "workers", .key = "stopping", .type = FACT_SOME, \
	    .metric = METRIC_WORKERS, .label = "stopping", .text = "workers that stop") \
	X(SEATS_AWAITED, .scope = FACT_OF_HOST, .key = "awaits_seat", .metric = METRIC_SEATS_AWAITED, \
	    .text = "workers with a message that waits for a seat of max_in_flight") \
	X(RESTARTS, .scope = FACT_OF_HOST, .key = "restarts", .metric = METRIC_WORKER_RESTARTS, \
	    .title = "Restarts", .in = IN_NODES_END | IN_STATUS_END, .yields = 9, .rare = true, \
	    .text = "workers started in place of dead workers") \
	X(BREAKER, .scope = FACT_OF_HOST, .key = "breaker", .type = FACT_FLAG, .metric = METRIC_BREAKER_OPEN, \
	    .text = "the breaker is open") \
	X(HANDLER_NOT_READY, .scope = FACT_OF_HOST, .key = "handler_not_ready", .type = FACT_FLAG, \
	    .metric = METRIC_HANDLER_NOT_READY, \
	    .text = "the newest handler was not ready: workers go on with their old handler, or none is ready since") \
	X(NEXT_ATTEMPT, .scope = FACT_OF_HOST, .key = "next_attempt_ms", .type = FACT_LEFT, \
	    .metric = METRIC_BREAKER_NEXT_ATTEMPT, \
	    .title = "Next attempt", \
	    .text = "the time until workers try the handler of an open breaker again") \
	X(NEXT_CONNECT, .scope = FACT_OF_HOST, .key = "next_connect_ms", .type = FACT_LEFT, \
	    .text = "while all workers have lost Redis, the time until the first of them tries to connect") \
	X(WORKER_MEMORY, .scope = FACT_OF_HOST, .object = "memory", .key = "workers", \
	    .heading = "Memory", .text = "resident bytes of the workers") \
	X(HANDLER_MEMORY, .scope = FACT_OF_HOST, .object = "memory", .key = "handlers", \
	    .text = "resident bytes of handlers")

#endif
