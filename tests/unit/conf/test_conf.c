/* links: tests/unit/conf/conf_fixture.c */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/conf/conf_fixture.h"
#include "tests/unit/unit.h"

TEST(a_short_file_gets_all_defaults, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	const struct conf_queue *q;

	conf_read_text(f, "queues = ( { name = \"mail\"; handler = [\"/bin/cat\"]; } );");
	assert_loaded(f);
	assert_string_equal(f->conf->redis.url, "redis://127.0.0.1:6379/0");
	assert_null(f->conf->redis.user);
	assert_null(f->conf->redis.password);
	assert_false(f->conf->redis.embedded);
	assert_false(f->conf->redis.allow_eviction);
	assert_string_equal(f->conf->supervisor.lock_file, "/run/quredis/quredisd.lock");
	assert_string_equal(f->conf->supervisor.control_socket, "/run/quredis/control.sock");
	assert_int_equal(f->conf->supervisor.drain_timeout_ms, 20000);
	assert_int_equal(f->conf->supervisor.lease_ms, 30000);
	assert_string_equal(f->conf->log.target, "stderr");
	assert_int_equal(f->conf->log.format, LOG_FORMAT_LOGFMT);
	assert_int_equal(f->conf->log.level, LOG_LEVEL_INFO);
	assert_int_equal(f->conf->nqueues, 1);
	q = f->conf->queues[0];
	assert_string_equal(q->ingress, "ingress:mail");
	assert_string_equal(q->transit, "transit:mail");
	assert_string_equal(q->escape, "escape:mail");
	assert_string_equal(q->handler[0], "/bin/cat");
	assert_null(q->handler[1]);
	assert_null(q->env);
	assert_int_equal(q->workers, 1);
	assert_int_equal(q->timeout_ms, 300000);
	assert_int_equal(q->kill_grace_ms, 5000);
	assert_int_equal(q->max_attempts, 1);
	assert_int_equal(q->recovery_attempts, 1);
	assert_int_equal(q->backoff.base_ms, 1000);
	assert_int_equal(q->backoff.cap_ms, 300000);
	assert_true(q->backoff.factor > 1.99 && q->backoff.factor < 2.01);
	assert_true(q->backoff.jitter > 0.19 && q->backoff.jitter < 0.21);
	assert_int_equal(q->breaker.failures, 0);
	assert_true(q->dead_letter.enabled);
	assert_int_equal(q->dead_letter.payload_max, 65536);
	assert_int_equal(q->dead_letter.ttl_ms, -1);
	assert_int_equal(q->stderr_tail, 8192);
	assert_int_equal(q->run_as.umask, 077);
	assert_true(q->run_as.no_new_privs);
	assert_int_equal(q->limits.memory, -1);
	assert_false(q->limits.oom_score_adj_set);
	assert_int_equal(q->window, 1);
	assert_int_equal(q->mode, CONF_MODE_EXEC);
	assert_int_equal(q->reply_fd, -1);
	assert_int_equal(q->recycle.jobs, -1);
	assert_int_equal(q->batch.max, 64);
	assert_int_equal(q->batch.time_ms, 20);
	assert_int_equal(q->ttl_ms, -1);
	for (int code = 0; code < 256; code++)
		assert_int_equal(q->exit_codes[code], code == 0 ? CONF_OUTCOME_DONE : code == 75 ? CONF_OUTCOME_RETRY
		    : code == 65 ? CONF_OUTCOME_ESCAPE : CONF_OUTCOME_FAIL);
}

TEST(what_is_written_is_read, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	const struct conf_queue *q;

	conf_read_text(f,
	    "redis = { url = \"unix:///run/r.sock?db=3\"; allow_eviction = true; };\n"
	    "supervisor = { node = \"web-1.x\"; kill_grace = \"250ms\"; lease = \"1h\"; };\n"
	    "log = { target = \"/var/log/q.log\"; format = \"json\"; level = \"debug\"; };\n"
	    "queues = ( { name = \"A.b_c-9\"; ingress = \"{t}in\"; transit = \"{t}work\"; escape = \"{t}out\";\n"
	    "  handler = (\"/bin/cat\", \"\", \"two words\"); input = \"argv\"; env = [\"A=b=c\", \"PATH\"];\n"
	    "  timeout = \"90s\"; workers = 0; max_attempts = 5; recovery_attempts = 0;\n"
	    "  backoff = { base = \"2s\"; factor = 3; cap = \"1h\"; jitter = 1.0; };\n"
	    "  exit_codes = { done = [3]; retry = [1, 2]; escape = []; fail = [0, 75]; };\n"
	    "  breaker = { failures = 64; }; dead_letter = { enabled = false; payload_max = \"0\"; };\n"
	    "  run_as = { directory = \"/\"; umask = \"022\"; nice = -5; no_new_privs = false; };\n"
	    "  limits = { memory = \"1G\"; open_files = 100; processes = 7; cpu = \"1500ms\"; file_size = \"0\";\n"
	    "    oom_score_adj = -1; };\n"
	    "  stderr_tail = \"0\"; } );\n");
	assert_loaded(f);
	assert_string_equal(f->conf->redis.url, "unix:///run/r.sock?db=3");
	assert_true(f->conf->redis.allow_eviction);
	assert_string_equal(f->conf->supervisor.node, "web-1.x");
	assert_int_equal(f->conf->supervisor.lease_ms, 3600000);
	assert_int_equal(f->conf->log.format, LOG_FORMAT_JSON);
	assert_int_equal(f->conf->log.level, LOG_LEVEL_DEBUG);
	q = conf_queue_find(f->conf, "A.b_c-9");
	assert_non_null(q);
	assert_string_equal(q->ingress, "{t}in");
	assert_string_equal(q->handler[1], "");
	assert_string_equal(q->handler[2], "two words");
	assert_int_equal(q->input, CONF_INPUT_ARGV);
	assert_string_equal(q->env[0], "A=b=c");
	assert_int_equal(q->kill_grace_ms, 250);
	assert_int_equal(q->workers, 0);
	assert_true(q->backoff.factor > 2.99 && q->backoff.factor < 3.01);
	assert_int_equal(q->exit_codes[0], CONF_OUTCOME_FAIL);
	assert_int_equal(q->exit_codes[1], CONF_OUTCOME_RETRY);
	assert_int_equal(q->exit_codes[3], CONF_OUTCOME_DONE);
	assert_int_equal(q->exit_codes[65], CONF_OUTCOME_ESCAPE);
	assert_int_equal(q->exit_codes[75], CONF_OUTCOME_FAIL);
	assert_false(q->dead_letter.enabled);
	assert_int_equal(q->dead_letter.payload_max, 0);
	assert_int_equal(q->run_as.umask, 022);
	assert_int_equal(q->run_as.nice, -5);
	assert_int_equal(q->limits.memory, INT64_C(1) << 30);
	assert_int_equal(q->limits.cpu_ms, 1500);
	assert_int_equal(q->limits.file_size, 0);
	assert_int_equal(q->limits.oom_score_adj, -1);
	assert_true(q->limits.oom_score_adj_set);
	assert_int_equal(q->stderr_tail, 0);
	assert_null(conf_queue_find(f->conf, "other"));
}

TEST(a_queue_takes_from_defaults_and_globals, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	conf_read_text(f,
	    "supervisor = { kill_grace = \"9s\"; };\n"
	    "dead_letter = { enabled = false; payload_max = \"1K\"; };\n"
	    "defaults = { handler = [\"/bin/cat\"]; workers = 3; backoff = { base = \"7s\"; };\n"
	    "  exit_codes = { retry = [1]; }; limits = { oom_score_adj = 5; }; dead_letter = { payload_max = \"2K\"; }; };\n"
	    "queues = ( { name = \"a\"; },\n"
	    "  { name = \"b\"; workers = 1; backoff = { cap = \"1h\"; }; exit_codes = { retry = [2]; }; kill_grace = \"1s\";\n"
	    "    dead_letter = { enabled = true; }; handler = [\"/bin/tac\"]; } );\n");
	assert_loaded(f);
	assert_int_equal(f->conf->queues[0]->workers, 3);
	assert_int_equal(f->conf->queues[1]->workers, 1);
	assert_string_equal(f->conf->queues[0]->handler[0], "/bin/cat");
	assert_string_equal(f->conf->queues[1]->handler[0], "/bin/tac");
	assert_int_equal(f->conf->queues[1]->backoff.base_ms, 7000);		/* key by key */
	assert_int_equal(f->conf->queues[1]->backoff.cap_ms, 3600000);
	assert_int_equal(f->conf->queues[0]->exit_codes[1], CONF_OUTCOME_RETRY);
	assert_int_equal(f->conf->queues[1]->exit_codes[1], CONF_OUTCOME_FAIL);	/* one value, not merged */
	assert_int_equal(f->conf->queues[1]->exit_codes[75], CONF_OUTCOME_RETRY);
	assert_int_equal(f->conf->queues[0]->kill_grace_ms, 9000);
	assert_int_equal(f->conf->queues[1]->kill_grace_ms, 1000);
	assert_false(f->conf->queues[0]->dead_letter.enabled);
	assert_true(f->conf->queues[1]->dead_letter.enabled);
	assert_int_equal(f->conf->queues[0]->dead_letter.payload_max, 2048);
	assert_true(f->conf->queues[0]->limits.oom_score_adj_set);
	assert_int_equal(f->conf->queues[1]->limits.oom_score_adj, 5);
}

TEST(fragments_are_merged_in_order, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	conf_write(f, "quredis.conf", "redis = { allow_eviction = true; };\n"
	    "queues = ( { name = \"a\"; handler = [\"/bin/cat\"]; } );");
	conf_write(f, "conf.d/20-b.conf", "queues = ( { name = \"c\"; handler = [\"/bin/cat\"]; } );");
	conf_write(f, "conf.d/10-a.conf", "redis = { url = \"redis://other\"; }; defaults = { workers = 7; };\n"
	    "queues = ( { name = \"b\"; handler = [\"/bin/cat\"]; } );");
	conf_write(f, "conf.d/.hidden.conf", "nonsense = 1;");
	conf_write(f, "conf.d/30.conf.bak", "nonsense = 1;");
	conf_write(f, "conf.d/30.conf~", "nonsense = 1;");
	conf_read(f, CONF_LENIENT_HANDLERS);
	assert_loaded(f);
	assert_true(f->conf->redis.allow_eviction);
	assert_string_equal(f->conf->redis.url, "redis://other");
	assert_int_equal(f->conf->nqueues, 3);
	assert_string_equal(f->conf->queues[0]->name, "a");
	assert_string_equal(f->conf->queues[1]->name, "b");
	assert_string_equal(f->conf->queues[2]->name, "c");
	assert_int_equal(f->conf->queues[0]->workers, 7);
}

TEST(what_two_files_say_names_both, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	conf_write(f, "quredis.conf", "\nlog = { level = \"info\"; };\ndefaults = { workers = 1; };\n"
	    "queues = ( { name = \"a\"; handler = [\"/bin/cat\"]; } );");
	conf_write(f, "conf.d/x.conf", "log = { level = \"debug\"; format = \"json\"; }; defaults = { workers = 2; };\n"
	    "queues = ( { name = \"a\"; handler = [\"/bin/cat\"]; } );");
	conf_read(f, CONF_LENIENT_HANDLERS);
	assert_refused(f, "conf.d/x.conf:1: log.level is already set at quredis.conf:2\n");
	assert_said(f, "conf.d/x.conf:1: defaults.workers is already set at quredis.conf:3\n");
	assert_said(f, "conf.d/x.conf:2: queue a is already defined at quredis.conf:4\n");
	assert_int_equal(f->errors, 3);
}

TEST(each_file_tells_its_syntax_error, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	conf_write(f, "quredis.conf", "log = {\n");
	conf_write(f, "conf.d/a.conf", "unknown = 1;");
	conf_write(f, "conf.d/b.conf", "\n\nx = = 1;");
	conf_read(f, CONF_LENIENT_HANDLERS);
	assert_string_equal(f->report, "quredis.conf:2: syntax error here or just before; write name = \"text\"; number = 5; queues = ( { ... } );\n"
	    "conf.d/a.conf:1: unknown key 'unknown'\n"
	    "conf.d/b.conf:3: syntax error here or just before; write name = \"text\"; number = 5; queues = ( { ... } );\n");
}

TEST(the_environment_overrides, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	setenv("QUREDIS_REDIS_URL", "redis://:pw@env:1/2", 1);
	setenv("QUREDIS_LOG_LEVEL", "error", 1);
	conf_read_text(f, "redis = { url = \"redis://file\"; }; log = { level = \"debug\"; };");
	assert_loaded(f);
	assert_string_equal(f->conf->redis.url, "redis://env:1/2");
	assert_string_equal(f->conf->redis.password, "pw");
	assert_int_equal(f->conf->log.level, LOG_LEVEL_ERROR);
	setenv("QUREDIS_LOG_LEVEL", "loud", 1);
	setenv("QUREDIS_REDIS_URL", "rediss://h:0", 1);
	conf_read_text(f, "");
	assert_refused(f, "environment QUREDIS_LOG_LEVEL: expected \"debug\"");
	assert_said(f, "environment QUREDIS_REDIS_URL: redis.url: \"rediss://h:0\": expected a port");
}

TEST(embedded_redis_has_its_socket_in_dir, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;

	conf_read_text(f, "redis = { embedded = true; dir = \"/var/lib/quredis\"; };");
	assert_loaded(f);
	assert_string_equal(f->conf->redis.url, "unix:///var/lib/quredis/redis.sock");
	conf_read_text(f, "redis = { embedded = true; dir = \"/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"; };");
	assert_refused(f, "quredis.conf:1: redis.dir is too long");
	setenv("QUREDIS_REDIS_URL", "redis://h", 1);
	conf_read_text(f, "redis = { embedded = true; dir = \"/var/lib/quredis\"; };");
	assert_refused(f, "environment QUREDIS_REDIS_URL: redis.url cannot be set together with redis.embedded");
}

TEST(the_node_is_the_host, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	char host[256] = "";

	conf_read_text(f, "");
	assert_loaded(f);
	gethostname(host, sizeof(host) - 1);
	assert_int_equal(strlen(f->conf->supervisor.node), strlen(host) > 64 ? 64 : strlen(host));
	assert_int_equal(strspn(f->conf->supervisor.node,
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"), strlen(f->conf->supervisor.node));
}

TEST(without_a_file_defaults_hold, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_report report;
	struct conf *conf;

	setenv("QUREDIS_LOG_LEVEL", "error", 1);
	conf = conf_load(NULL, CONF_LENIENT_HANDLERS, &report);
	assert_int_equal(report.n, 0);
	assert_non_null(conf);
	assert_string_equal(conf->redis.url, "redis://127.0.0.1:6379/0");
	assert_int_equal(conf->log.level, LOG_LEVEL_ERROR);
	conf_report_free(&report);
	conf_free(conf);
}

TEST(too_much_is_refused, conf_fixture_setup, conf_fixture_teardown)
{
	struct conf_fixture *f = *state;
	char *text = calloc(1, 64 * 600), *p = text;

	p += sprintf(p, "defaults = { handler = [\"/bin/cat\"]; }; queues = (");
	for (int i = 0; i < 513; i++)
		p += sprintf(p, "%s { name = \"q%d\"; workers = 2; }", i == 0 ? "" : ",", i);
	strcpy(p, ");");
	conf_read_text(f, text);
	free(text);
	assert_refused(f, "1026 workers in all: expected at most 1016");
	assert_said(f, "513 queues: expected at most 512");
}

UNIT_MAIN(NULL, NULL)
