/* links: tests/unit/supervisor/master_fixture.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write */
/* The master still says what failed when a newer handler takes the place of the one that did. */
#include <errno.h>
#include <string.h>

#include "common/handler/handler.h"
#include "tests/unit/supervisor/master_fixture.h"
#include "tests/unit/unit.h"

/* The breaker is open, and then the operator orders a newer handler. */
static int setup(void **state)
{
	int r = master_setup(state);

	atomic_store(&m.board->queues[MAIL].workers.breaker.cause, handler_cause_unrunnable("execve", ENOENT));
	atomic_store(&m.board->queues[MAIL].workers.breaker.step, 1);
	return r;
}

static const char *why_after_adoption(void)
{
	static struct slot_text_seen why;

	queues_want_handler(&m.queues, MAIL);
	queues_adopt_handler(&m.queues, MAIL, false);
	why = slot_text_read(&m.board->queues[MAIL].master.not_ready_why);
	return why.text;
}

TEST(what_failed_has_the_file_of_its_handler, setup, master_teardown)
{
	assert_non_null(strstr(why_after_adoption(), "cannot be executed: execve /bin/true: No such file"));
}

TEST(what_failed_before_the_configuration_changed_has_not_the_file_of_the_new_one, setup, master_teardown)
{
	queues_note_conf(&m.queues, MAIL);
	assert_non_null(strstr(why_after_adoption(), "cannot be executed: execve: No such file"));
}

UNIT_MAIN(NULL, NULL)
