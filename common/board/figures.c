/*
 * The names of the counters, as status, stats and metrics show them; the buckets of all histograms; and the histogram of lags, which
 * two sweepers may write at a time.
 */
#include "common/board/scoreboard.h"

const char *const counter_names[COUNTERS] = {
	[COUNT_FETCHED] = "fetched",
	[COUNT_DONE] = "done",
	[COUNT_FAILED] = "failed",
	[COUNT_RETRIED] = "retried",
	[COUNT_ESCAPED] = "escaped",
	[COUNT_TIMED_OUT] = "timed_out",
	[COUNT_HANDED_BACK] = "handed_back",
	[COUNT_REDELIVERED] = "redelivered",
	[COUNT_CLAIM_LOST] = "claim_lost",
	[COUNT_UNRUNNABLE] = "unrunnable",
	[COUNT_STRAY_ANSWERS] = "stray_answers",
	[COUNT_RECONNECTED] = "reconnected",
	[COUNT_EXPIRED] = "expired",
	[COUNT_PURGED] = "purged",
	[COUNT_EXPIRED_WAITING] = "expired_waiting",
	[COUNT_PURGED_DELAYED] = "purged_delayed",
	[COUNT_DEADLINE_EXCEEDED] = "deadline_exceeded",
	[COUNT_HANDLER_EXIT] = "handler_exit",
	[COUNT_HANDLER_FAIL] = "handler_fail",
	[COUNT_HANDLER_SIGNAL] = "handler_signal",
	[COUNT_HANDLER_TIMEOUT] = "handler_timeout",
	[COUNT_REJECTED] = "rejected",
	[COUNT_UNREPRESENTABLE] = "unrepresentable",
	[COUNT_UNKNOWN_VERSION] = "unknown_version",
	[COUNT_UNKNOWN_SEAL] = "unknown_seal",
	[COUNT_TOO_LARGE] = "too_large",
	[COUNT_WORKER_LOST] = "worker_lost",
	[COUNT_PURGED_DONE] = "purged_done",
	[COUNT_TRANSIT_OLD] = "transit_old",
	[COUNT_WOULD_PURGE] = "would_purge",
	[COUNT_RESCUED] = "rescued",
	[COUNT_DUE] = "due",
	[COUNT_ARCHIVED] = "archived",
	[COUNT_DISCARDED] = "discarded",
	[COUNT_ORPHANED] = "orphaned",
	[COUNT_FORWARDED] = "forwarded",
};

int figures_bucket(int64_t ms)
{
	int i = 0;

	while (i < SCOREBOARD_BUCKETS - 1 && ms >= INT64_C(1) << i)
		i++;
	return i;
}

void board_observe_lag(struct board_queue *q, int64_t lag_ms)
{
	uint64_t lag = lag_ms > 0 ? (uint64_t)lag_ms : 0, most = atomic_load(&q->sweeper.lag_max_ms);

	atomic_fetch_add(&q->sweeper.lags[figures_bucket(lag_ms)], 1);
	atomic_fetch_add(&q->sweeper.lag_ms, lag);
	while (lag > most && !atomic_compare_exchange_weak(&q->sweeper.lag_max_ms, &most, lag))
		;
}
