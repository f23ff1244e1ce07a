#include <math.h>
#include <unistd.h>

#include "common/facts/exposition.h"
#include "tests/unit/unit.h"

#define assert_written(b, expected) \
	do { \
		buffer_append((b), "", 1); \
		assert_string_equal((b)->data, (expected)); \
		buffer_free(b); \
	} while (0)

TEST(a_metric_and_its_samples)
{
	struct buffer b = {0};

	assert_true(exposition_metric(&b, PAGE_CONSOLE, METRIC_QUEUE_MESSAGES));
	assert_false(exposition_metric(&b, PAGE_FILE, METRIC_NODE_UP));
	exposition_sample(&b, METRIC_QUEUE_MESSAGES, (const char *const[METRIC_LABELS]){ "mail", "ingress" }, INT64_MAX);
	exposition_sample(&b, METRIC_REDIS_UP, (const char *const[METRIC_LABELS]){ NULL }, 0);
	assert_written(&b, "# HELP quredis_queue_messages Messages in a list of a queue.\n# TYPE quredis_queue_messages gauge\n"
			   "quredis_queue_messages{queue=\"mail\",list=\"ingress\"} 9223372036854775807\nquredis_redis_up 0\n");
}

TEST(a_label_without_a_value_is_left_out)
{
	struct buffer b = {0};

	exposition_sample(&b, METRIC_WORKERS, (const char *const[METRIC_LABELS]){ NULL, "mail", "idle" }, 2);
	exposition_sample(&b, METRIC_WORKERS, (const char *const[METRIC_LABELS]){ "host", "mail", "idle" }, 3);
	exposition_sample(&b, METRIC_WORKERS, (const char *const[METRIC_LABELS]){ NULL }, 4);
	assert_written(&b, "quredis_workers{queue=\"mail\",state=\"idle\"} 2\n"
			   "quredis_workers{node=\"host\",queue=\"mail\",state=\"idle\"} 3\nquredis_workers 4\n");
}

TEST(values_of_labels_are_escaped)
{
	struct buffer b = {0};

	exposition_sample(&b, METRIC_MESSAGES, (const char *const[METRIC_LABELS]){ "a\"b\\c\nd{}=,\xc3\xa9", "" }, 1);
	assert_written(&b, "quredis_messages_total{queue=\"a\\\"b\\\\c\\nd{}=,\xc3\xa9\",event=\"\"} 1\n");
}

TEST(milliseconds_become_seconds)
{
	struct buffer b = {0};

	exposition_sample(&b, METRIC_WRITTEN, (const char *const[METRIC_LABELS]){ NULL }, 7);
	exposition_sample(&b, METRIC_WRITTEN, (const char *const[METRIC_LABELS]){ NULL }, 1795208678244);
	assert_written(&b, "quredis_written_timestamp_seconds 0.007\nquredis_written_timestamp_seconds 1795208678.244\n");
}

TEST(buckets_of_a_histogram_are_cumulative)
{
	const struct exposition_bucket buckets[] = { { 0.001, 2 }, { 4194.304, 0 }, { INFINITY, 3 } };
	struct buffer b = {0};

	exposition_histogram(&b, METRIC_SWEEP_LAG, (const char *const[METRIC_LABELS]){ "mail" }, buckets, 3, 1500);
	assert_written(&b, "quredis_sweep_lag_seconds_bucket{queue=\"mail\",le=\"0.001\"} 2\n"
			   "quredis_sweep_lag_seconds_bucket{queue=\"mail\",le=\"4194.3\"} 2\n"
			   "quredis_sweep_lag_seconds_bucket{queue=\"mail\",le=\"+Inf\"} 5\n"
			   "quredis_sweep_lag_seconds_sum{queue=\"mail\"} 1.500\nquredis_sweep_lag_seconds_count{queue=\"mail\"} 5\n");
}

int main(void)
{
	alarm(10);
	return unit_run(NULL, NULL);
}
