/* links: tests/unit/supervisor/master_fixture.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/supervisor/master_fixture.h"

#include "supervisor/request.h"
#include "tests/unit/unit.h"

#define OK "{\"ok\":true}"
#define REFUSED(why) "{\"ok\":false,\"error\":\"" why "\"}"

static bool may_order = true;

/* Good until the next call. */
static const char *answer(const char *line)
{
	static char text[65536];
	char *a = request_answer(&m, line, strlen(line), may_order, 1000);

	assert_non_null(a);
	snprintf(text, sizeof(text), "%s", a);
	free(a);
	return text;
}

#define assert_answer(line, text) assert_string_equal(answer(line), (text))

static enum order order_of(int slot)
{
	return (enum order)atomic_load(&m.board->master.orders[slot]);
}

/* ---- any request ---- */

TEST(what_is_no_command_is_refused, master_setup, master_teardown)
{
	static const char *const lines[] = { "", "{", "[]", "7", "{\"command\":7}", "{}", "{\"command\":\"stop\",\"command\":\"status\"}", "\xff" };

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_answer(lines[i], REFUSED("a request must be an object with a \\\"command\\\""));
	assert_answer("{\"command\":\"sto\"}", REFUSED("unknown command"));
	assert_answer("{\"command\":\"Status\"}", REFUSED("unknown command"));
	assert_int_equal(m.stop.phase, STOP_NOT);
}

TEST(status_is_the_document_with_ok, master_setup, master_teardown)
{
	assert_non_null(strstr(answer("{\"command\":\"status\"}"), "\"ok\":true"));
	assert_non_null(strstr(answer("{\"command\":\"status\"}"), "\"name\":\"mail\""));
	m.stop.phase = STOP_FINISHING;
	assert_non_null(strstr(answer("{\"command\":\"status\"}"), "\"ok\":true"));
}

TEST(while_stopping_only_status_and_stop_are_answered, master_setup, master_teardown)
{
	static const char *const refused[] = {
		"{\"command\":\"reload\"}", "{\"command\":\"restart\",\"queue\":\"mail\"}", "{\"command\":\"scale\",\"queue\":\"mail\",\"workers\":1}",
		"{\"command\":\"quiet\"}", "{\"command\":\"resume\"}", "{\"command\":\"quiet\",\"queue\":\"none\"}",
	};
	int slot = master_add_worker(MAIL, 0, 0);

	assert_answer("{\"command\":\"stop\"}", OK);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_answer(refused[i], REFUSED("stopping"));
	assert_int_equal(order_of(slot), ORDER_FINISH);
	assert_null(master_logged("reload_done"));
	assert_answer("{\"command\":\"stop\",\"fast\":true}", OK);
	assert_int_equal(m.stop.phase, STOP_HANDING_BACK);
}

TEST(a_stop_is_a_drain_unless_it_says_fast, master_setup, master_teardown)
{
	assert_answer("{\"command\":\"stop\",\"fast\":1}", REFUSED("\\\"fast\\\" must be true or false"));
	assert_int_equal(m.stop.phase, STOP_NOT);
	assert_answer("{\"command\":\"stop\",\"fast\":false}", OK);
	assert_int_equal(m.stop.phase, STOP_FINISHING);
	assert_logged("stopping", "reason=control socket how=drain");
}

/* ---- of a queue ---- */

TEST(a_queue_that_does_not_exist_is_refused_with_the_nearest_name, master_setup, master_teardown)
{
	assert_answer("{\"command\":\"restart\",\"queue\":\"mial\"}", REFUSED("no such queue (did you mean mail?)"));
	assert_answer("{\"command\":\"restart\",\"queue\":\"something else\"}", REFUSED("no such queue"));
	assert_answer("{\"command\":\"restart\"}", REFUSED("\\\"queue\\\" must be a string"));
	assert_answer("{\"command\":\"scale\",\"queue\":7,\"workers\":1}", REFUSED("\\\"queue\\\" must be a string"));
	assert_answer("{\"command\":\"quiet\",\"queue\":null}", REFUSED("\\\"queue\\\" must be a string"));
	assert_false(m.queues.quiet);
}

TEST(a_queue_that_left_does_not_exist, master_setup, master_teardown)
{
	queues_leave(&m.queues, MAIL, 0, 0);
	assert_answer("{\"command\":\"restart\",\"queue\":\"mail\"}", REFUSED("no such queue"));
}

TEST(a_restart_replaces_the_workers_of_its_queue, master_setup, master_teardown)
{
	int mail = master_add_worker(MAIL, 0, 0), later = master_add_worker(LATER, 0, 0);

	assert_answer("{\"command\":\"restart\",\"queue\":\"mail\"}", OK);
	assert_int_equal(m.processes.items[mail].state, PROCESS_LEAVING);
	assert_int_equal(m.processes.items[later].state, PROCESS_SERVING);
	assert_logged("queue_restart", "queue=mail");
}

#define READY "handler = [\"/bin/true\"]; workers = 1; mode = \"persistent\"; ready = true;"

TEST(a_restart_names_the_renewal_of_its_queue_alone, master_setup, master_teardown)
{
	const struct conf *conf = master_load("supervisor = { node = \"n\"; }; queues = ( { name = \"mail\"; " READY " }, "
	    "{ name = \"later\"; " READY " } );");
	const char *a;

	queues_keep(&m.queues, MAIL, conf->queues[MAIL]);
	queues_keep(&m.queues, LATER, conf->queues[LATER]);
	master_add_worker(MAIL, 0, 0);
	master_add_worker(LATER, 0, 0);
	assert_non_null(strstr(answer("{\"command\":\"restart\",\"queue\":\"later\"}"), "\"renewals\":[{\"queue\":\"later\""));
	a = answer("{\"command\":\"restart\",\"queue\":\"mail\"}");
	assert_non_null(strstr(a, "\"renewals\":[{\"queue\":\"mail\""));
	assert_null(strstr(a, "later"));
}

TEST(a_scale_takes_whole_numbers_up_to_a_thousand, master_setup, master_teardown)
{
	static const char *const wrong[] = { "-1", "1001", "1.0", "\"1\"", "null", "9223372036854775807" };
	char line[128];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(line, sizeof(line), "{\"command\":\"scale\",\"queue\":\"mail\",\"workers\":%s}", wrong[i]);
		assert_answer(line, REFUSED("\\\"workers\\\" must be a whole number from 0 to 1000"));
	}
	assert_answer("{\"command\":\"scale\",\"queue\":\"mail\"}", REFUSED("\\\"workers\\\" must be a whole number from 0 to 1000"));
	assert_int_equal(queues_wanted(&m.queues.items[MAIL]), 2);
	assert_answer("{\"command\":\"scale\",\"queue\":\"mail\",\"workers\":0}", OK);
	assert_int_equal(queues_wanted(&m.queues.items[MAIL]), 0);
	assert_answer("{\"command\":\"scale\",\"queue\":\"mail\",\"workers\":1000}", OK);
	assert_logged("queue_scaled", "queue=mail workers=1000 before=0");
}

TEST(all_queues_together_have_no_more_workers_than_there_are_slots, master_setup, master_teardown)
{
	char line[128];

	assert_answer("{\"command\":\"scale\",\"queue\":\"later\",\"workers\":1000}", OK);
	snprintf(line, sizeof(line), "{\"command\":\"scale\",\"queue\":\"mail\",\"workers\":%d}", SCOREBOARD_WORKERS - 1000 + 1);
	assert_answer(line, REFUSED("that would be too many workers in all queues together"));
	snprintf(line, sizeof(line), "{\"command\":\"scale\",\"queue\":\"mail\",\"workers\":%d}", SCOREBOARD_WORKERS - 1000);
	assert_answer(line, OK);
	assert_answer(line, OK);	/* what it had does not count twice */
}

TEST(quiet_is_of_one_queue_or_of_all, master_setup, master_teardown)
{
	int mail = master_add_worker(MAIL, 0, 0), later = master_add_worker(LATER, 0, 0);

	assert_answer("{\"command\":\"quiet\",\"queue\":\"mail\"}", OK);
	assert_int_equal(order_of(mail), ORDER_QUIET);
	assert_int_equal(order_of(later), ORDER_RUN);
	assert_answer("{\"command\":\"quiet\"}", OK);
	assert_int_equal(order_of(later), ORDER_QUIET);
	assert_answer("{\"command\":\"resume\"}", OK);
	assert_int_equal(order_of(mail), ORDER_QUIET);
	assert_int_equal(order_of(later), ORDER_RUN);
	assert_answer("{\"command\":\"resume\",\"queue\":\"mail\"}", OK);
	assert_int_equal(order_of(mail), ORDER_RUN);
}

/* ---- reload ---- */

TEST(a_reload_names_the_queues_that_left_with_their_keys, master_setup, master_teardown)
{
	const char *a;

	master_write_conf("supervisor = { node = \"n\"; }; queues = ( { name = \"mail\"; handler = [\"/bin/true\"]; ingress = \"other\"; } );");
	a = answer("{\"command\":\"reload\"}");
	assert_non_null(strstr(a, "{\"ok\":true,\"warnings\":["));
	assert_non_null(strstr(a, "\"left\":[{\"queue\":\"mail\",\"ingress\":\"ingress:mail\",\"transit\":\"transit:mail\",\"escape\":\"escape:mail\"},"
	    "{\"queue\":\"later\",\"ingress\":\"ingress:later\","));
	master_write_conf("supervisor = { node = \"n\"; }; queues = ( { name = \"mail\"; handler = [\"/bin/true\"]; ingress = \"other\"; workers = 3; } );");
	assert_non_null(strstr(answer("{\"command\":\"reload\"}"), "\"left\":[]"));
}

TEST(a_reload_that_fails_names_its_problems, master_setup, master_teardown)
{
	const char *a;

	master_write_conf("supervisor = { node = \"other\"; }; queues = ();");
	a = answer("{\"command\":\"reload\"}");
	assert_non_null(strstr(a, "{\"ok\":false,\"error\":\"the configuration has errors; the running one is kept\","
	    "\"problems\":[\"supervisor.node cannot change"));
	assert_non_null(strstr(a, "\"left\":[]"));
	assert_int_equal(queues_find(&m.queues, "mail"), MAIL);
}

static bool reload_awaits_mail(void)
{
	return strstr(answer("{\"command\":\"reload\"}"), "\"renewals\":[{\"queue\":\"mail\"") != NULL;
}

TEST(who_may_only_read_gives_no_order, master_setup, master_teardown)
{
	static const char *const orders[] = { "reload", "stop", "restart", "scale", "quiet", "resume" };
	char line[64];

	may_order = false;
	for (size_t i = 0; i < nitems(orders); i++) {
		snprintf(line, sizeof(line), "{\"command\":\"%s\",\"queue\":\"mail\"}", orders[i]);
		assert_non_null(strstr(answer(line), "\"ok\":false,\"error\":\"a member of supervisor.control_group may read the status only"));
	}
	assert_int_equal(m.stop.phase, STOP_NOT);
	assert_non_null(strstr(answer("{\"command\":\"status\"}"), "\"ok\":true"));
	may_order = true;
}

/* The second reload finds nothing new. */
TEST(a_reload_awaits_a_handler_that_no_worker_has_begun_to_load, master_setup, master_teardown)
{
	struct slot *slot;

	master_write_conf("supervisor = { node = \"n\"; }; queues = ( { name = \"mail\"; " READY " } );");
	assert_true(reload_awaits_mail());
	assert_true(reload_awaits_mail());				/* no worker is forked yet */
	slot = &m.board->slots[master_add_worker(MAIL, 0, 0)];
	atomic_store(&slot->handler_generation, m.queues.items[MAIL].handler_generation);
	assert_true(reload_awaits_mail());				/* it has not written to its slot yet */
	atomic_store(&slot->load, SLOT_UNLOADED);
	assert_true(reload_awaits_mail());
	atomic_store(&slot->loading, 1);
	assert_true(reload_awaits_mail());
	atomic_store(&slot->loading, 0);
	atomic_store(&slot->load, SLOT_LOADED);				/* it has ended since, and is started again */
	assert_false(reload_awaits_mail());
}

UNIT_MAIN(NULL, NULL)
