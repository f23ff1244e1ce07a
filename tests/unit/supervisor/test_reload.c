/* links: tests/unit/supervisor/master_fixture.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write */
#include <sys/mman.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/supervisor/master_fixture.h"
#include "tests/unit/unit.h"

#define NODE "supervisor = { node = \"n\"; }; "
#define Q(name, more) "{ name = \"" name "\"; handler = [\"/bin/true\"]; " more "}"
#define QUEUES(list) NODE "queues = ( " list " );"

static int mail, later, sweeper;	/* slots */
static struct conf *before;

static int setup(void **state)
{
	int r = master_setup(state);

	sweeper = master_add_sweeper(0, 0);
	mail = master_add_worker(MAIL, 0, 0);
	later = master_add_worker(LATER, 0, 0);
	before = m.config.conf;
	return r;
}

/* Of a configuration that is taken. */
static void reload(const char *text)
{
	struct conf_report report;

	master_write_conf(text);
	if (reload_run(&m, &report, 1000) == -1)
		conf_report_print(&report, stderr);
	assert_int_equal(report.errors, 0);
	conf_report_free(&report);
}

static bool has_error(const struct conf_report *report, const char *reason)
{
	for (size_t i = 0; i < report->n; i++)
		if (!report->problems[i].warning && strstr(report->problems[i].text, reason) != NULL)
			return true;
	return false;
}

/* Of one that is refused for this reason. */
static void reload_fails(const char *text, const char *reason)
{
	struct conf_report report;

	master_write_conf(text);
	assert_int_equal(reload_run(&m, &report, 1000), -1);
	assert_true(report.errors > 0);
	if (!has_error(&report, reason)) {
		conf_report_print(&report, stderr);
		fail_msg("no error: %s", reason);
	}
	assert_int_equal(master_count_events("config_problem"), report.n);
	assert_logged("reload_failed", "reason=the running configuration is kept");
	master_forget_events();
	conf_report_free(&report);
	assert_ptr_equal(m.config.conf, before);
	assert_int_equal(m.config.epoch, 0);
}

static enum process_state state_of(int slot)
{
	return m.processes.items[slot].state;
}

TEST(what_is_equal_keeps_its_processes, setup, master_teardown)
{
	reload(MASTER_CONF);
	assert_logged("reload_done", "info queues=2 entered=0 left=0 changed=0");
	assert_int_equal(m.config.epoch, 0);
	assert_int_equal(state_of(mail), PROCESS_SERVING);
	assert_int_equal(state_of(sweeper), PROCESS_SERVING);
	assert_ptr_not_equal(m.config.conf, before);
	assert_ptr_equal(m.queues.items[MAIL].conf, m.config.conf->queues[MAIL]);
}

TEST(another_number_of_workers_replaces_none, setup, master_teardown)
{
	queues_scale(&m.queues, MAIL, 7);
	reload(QUEUES(Q("mail", "workers = 3; ") ", " Q("later", "")));
	assert_logged("reload_done", "changed=0");
	assert_int_equal(queues_wanted(&m.queues.items[MAIL]), 3);
	assert_int_equal(state_of(mail), PROCESS_SERVING);
	assert_int_equal(state_of(sweeper), PROCESS_SERVING);
}

TEST(a_queue_that_changed_is_recycled_in_its_place_and_the_others_stay, setup, master_teardown)
{
	reload(QUEUES(Q("mail", "workers = 2; timeout = \"7s\"; ") ", " Q("later", "")));
	assert_logged("reload_done", "entered=0 left=0 changed=1");
	assert_int_equal(m.config.epoch, 1);
	assert_int_equal(queues_find(&m.queues, "mail"), MAIL);
	assert_int_equal(state_of(mail), PROCESS_LEAVING);
	assert_int_equal(state_of(later), PROCESS_SERVING);
	assert_int_equal(state_of(sweeper), PROCESS_LEAVING);
	assert_int_equal(m.queues.items[MAIL].handler_generation, 1);
}

TEST(a_queue_with_other_keys_takes_another_place, setup, master_teardown)
{
	reload(QUEUES(Q("mail", "workers = 2; ingress = \"other\"; ") ", " Q("later", "")));
	assert_logged("reload_done", "entered=0 left=0 changed=1");
	assert_int_equal(queues_find(&m.queues, "mail"), 2);
	assert_int_equal(m.queues.items[MAIL].membership, MEMBER_LEFT);
	assert_int_equal(m.queues.items[MAIL].left_epoch, 0);
	assert_int_equal(state_of(mail), PROCESS_LEAVING);
	assert_int_equal(state_of(later), PROCESS_SERVING);
}

TEST(on_another_server_every_queue_takes_another_place, setup, master_teardown)
{
	reload(QUEUES(Q("mail", "workers = 2; ") ", " Q("later", "")) " redis = { url = \"redis://127.0.0.1:1\"; };");
	assert_logged("reload_done", "changed=2");
	assert_int_equal(queues_find(&m.queues, "mail"), 2);
	assert_int_equal(queues_find(&m.queues, "later"), 3);
}

TEST(a_global_key_recycles_every_queue_in_its_place, setup, master_teardown)
{
	reload(QUEUES(Q("mail", "workers = 2; ") ", " Q("later", "")) " redis = { allow_eviction = true; };");
	assert_logged("reload_done", "changed=2");
	assert_int_equal(queues_find(&m.queues, "later"), LATER);
	assert_int_equal(state_of(later), PROCESS_LEAVING);
}

TEST(a_queue_leaves_and_returns, setup, master_teardown)
{
	reload(QUEUES(Q("later", "")));
	assert_logged("reload_done", "queues=1 entered=0 left=1 changed=0");
	assert_int_equal(queues_find(&m.queues, "mail"), -1);
	assert_int_equal(m.queues.items[MAIL].left_epoch, 0);
	assert_int_equal(state_of(mail), PROCESS_LEAVING);
	reload(QUEUES(Q("mail", "workers = 2; ") ", " Q("later", "")));
	assert_logged("reload_done", "queues=2 entered=1 left=0 changed=0");
	assert_int_equal(queues_root(&m.queues, MAIL), queues_find(&m.queues, "mail"));
	assert_int_equal(m.config.epoch, 2);
}

TEST(two_reloads_let_the_first_worker_finish, setup, master_teardown)
{
	reload(QUEUES(Q("mail", "workers = 2; timeout = \"7s\"; ") ", " Q("later", "")));
	assert_int_equal(atomic_load(&m.board->master.orders[mail]), ORDER_RUN);
	reload(QUEUES(Q("mail", "workers = 2; timeout = \"8s\"; ") ", " Q("later", "")));
	assert_int_equal(atomic_load(&m.board->master.orders[mail]), ORDER_RUN);		/* until new workers serve: staffing.c */
}

TEST(any_error_keeps_the_running_configuration, setup, master_teardown)
{
	reload_fails("queues = ( { nam = \"mail\"; } );", "nam");
	assert_int_equal(state_of(mail), PROCESS_SERVING);
	assert_int_equal(state_of(sweeper), PROCESS_SERVING);
	assert_int_equal(queues_find(&m.queues, "later"), LATER);
}

/* What a deploy on a full disk leaves. */
TEST(a_configuration_that_was_cut_away_is_refused, setup, master_teardown)
{
	reload_fails(NODE, "the configuration has no queue any more: restore one, or stop quredisd");
	reload_fails(NODE "queues = ();", "the configuration has no queue any more");
	reload_fails("", "sets nothing any more, and queue mail is from it: restore it, or remove the file");
	assert_int_equal(state_of(mail), PROCESS_SERVING);
}

TEST(another_server_must_be_named, setup, master_teardown)
{
	static const char queues[] = QUEUES(Q("mail", "") ", " Q("later", ""));
	char named[sizeof(queues) + 100];

	snprintf(named, sizeof(named), "redis = { url = \"redis://192.0.2.1:7000\"; }; %s", queues);
	reload(named);
	before = m.config.conf;
	master_forget_events();
	m.config.epoch = 0;
	reload_fails(queues, "redis.url is not set any more: restore it, or set it to \"redis://127.0.0.1:6379/0\"");
	snprintf(named, sizeof(named), "redis = { url = \"redis://127.0.0.1:6379/0\"; }; %s", queues);
	reload(named);
	reload(queues);			/* the same server, now by default */
}

TEST(what_cannot_change_is_refused_by_its_name, setup, master_teardown)
{
	static const struct { const char *text, *reason; } rows[] = {
		{ "supervisor = { node = \"other\"; }; queues = ();", "supervisor.node cannot change" },
		{ "supervisor = { node = \"n\"; lock_file = \"/tmp/x\"; }; queues = ();", "supervisor.lock_file cannot change" },
		{ "supervisor = { node = \"n\"; control_socket = \"/tmp/x\"; }; queues = ();", "supervisor.control_socket cannot change" },
		{ NODE "redis = { embedded = true; dir = \"/tmp/x\"; }; queues = ();", "redis.embedded cannot change" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		reload_fails(rows[i].text, rows[i].reason);
}

TEST(the_directory_of_an_embedded_redis_cannot_change, setup, master_teardown)
{
	reload_fails(NODE "redis = { embedded = true; dir = \"/tmp/x\"; }; queues = ();", "redis.embedded");
	m.config.conf->redis.embedded = true;
	reload_fails(NODE "redis = { embedded = true; dir = \"/tmp/x\"; }; queues = ();", "redis.dir cannot change");
	m.config.conf->redis.embedded = false;
}

TEST(a_log_that_cannot_be_opened_is_an_error, setup, master_teardown)
{
	reload_fails(QUEUES(Q("later", "")) " log = { target = \"/nonexistent/log\"; };", "log.target: /nonexistent/log: No such file");
	assert_int_equal(queues_find(&m.queues, "mail"), MAIL);
}

/* ---- users of handlers ---- */

static void lock_text_is(const char *want)
{
	char text[512] = "";

	assert_true(pread(m.lock.fd, text, sizeof(text) - 1, 0) >= 0);
	assert_non_null(strstr(text, "users"));
	assert_string_equal(strstr(text, "users"), want);
}

TEST(every_user_of_a_handler_is_in_the_lock_file_first, setup, master_teardown)
{
	struct conf_run_as *first = &m.config.conf->queues[MAIL]->run_as, *second = &m.config.conf->queues[LATER]->run_as;
	char error[256];

	m.lock.fd = memfd_create("lock", MFD_CLOEXEC);
	first->switch_user = second->switch_user = true;
	first->uid = 12345;
	second->uid = 54321;
	assert_int_equal(reload_note_users(&m, m.config.conf, error, sizeof(error)), 0);
	lock_text_is("users 12345 54321\n");
	second->switch_user = false;
	second->uid = 777;
	assert_int_equal(reload_note_users(&m, m.config.conf, error, sizeof(error)), 0);
	lock_text_is("users 12345 54321\n");
	close(m.lock.fd);
}

TEST(a_user_that_cannot_be_noted_has_no_handlers, setup, master_teardown)
{
	struct conf_run_as *r = &m.config.conf->queues[LATER]->run_as;
	char error[256];

	r->switch_user = true;
	r->uid = 12345;
	m.lock.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(reload_note_users(&m, m.config.conf, error, sizeof(error)), -1);
	assert_non_null(strstr(error, ": cannot be written: Bad file descriptor"));
	assert_false(leftovers_users_have(&m.lock.text.users, 12345));
	close(m.lock.fd);
}

UNIT_MAIN(NULL, NULL)
