/* What a worker writes as evidence, and what it does with a suspect. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/worker/evidence_fixture.h"

struct evidence_fixture noted;

void __wrap_queue_annotate(struct redis *r, const struct queue_owner *o, const char *k, const char *v);

void __wrap_queue_annotate(struct redis *r, const struct queue_owner *o, const char *k, const char *v)
{
	assert_ptr_equal(r, &lone.w->session.redis);
	assert_ptr_equal(o, &lone.w->session.owner);
	snprintf(noted.key, sizeof(noted.key), "%s", k);
	snprintf(noted.value, sizeof(noted.value), "%s", v);
	noted.written++;
}

static int begin(bool shared)
{
	noted = (struct evidence_fixture){0};
	lone_worker_begin(shared);
	evidence_init(lone.w);
	return 0;
}

int evidence_fixture_setup(void **state)
{
	(void)state;
	return begin(false);
}

int evidence_fixture_setup_shared(void **state)
{
	(void)state;
	return begin(true);
}
