/* Doctor reads the status of a supervisor, which may be of another version. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "admin/doctor/checks.h"
#include "tests/unit/unit.h"

static struct conf conf;
static struct admin admin = { .conf = &conf };

/* The findings of the check, a line each, if the supervisor says this of its queue. */
static const char *found(const char *queue)
{
	static char lines[1024];
	struct doctor d = { .a = &admin, .check = "supervisor" };
	const struct finding *f;

	findings_init(&d);
	d.supervisor.status = json_pack("{s:[o]}", "queues", json_loads(queue, 0, NULL));
	assert_non_null(d.supervisor.status);
	assert_int_equal(check_supervisor(&d), 0);
	lines[0] = '\0';
	STAILQ_FOREACH(f, &d.findings.list, next)
		snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%s\n", f->what);
	findings_free(&d);
	json_decref(d.supervisor.status);
	return lines;
}

TEST(each_hold_is_found)
{
	assert_string_equal(found("{\"name\": \"mail\", \"state\": \"breaker\", \"reason\": \"no such file\", \"holds\": ["
	    "{\"state\": \"breaker\", \"reason\": \"no such file\"}, {\"state\": \"paused\"}, {\"state\": \"quiet\", \"reason\": \"an operator\"}]}"),
	    "breaker: no such file\nquiet: an operator\n");
	assert_string_equal(found("{\"name\": \"mail\", \"state\": \"running\", \"holds\": []}"), "");
}

TEST(a_supervisor_without_a_list_of_holds_has_one_in_its_state)
{
	assert_string_equal(found("{\"name\": \"mail\", \"state\": \"breaker\", \"reason\": \"no such file\"}"), "breaker: no such file\n");
	assert_string_equal(found("{\"name\": \"mail\", \"state\": \"quiet\", \"holds\": 7}"), "quiet: \n");
	assert_string_equal(found("{\"name\": \"mail\", \"state\": \"running\", \"reason\": null}"), "");
	assert_string_equal(found("{\"name\": \"mail\", \"state\": 7}"), "");
}

UNIT_MAIN(NULL, NULL)
