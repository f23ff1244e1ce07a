/* What a reload has to do: which queues, and whether anything else, differ in effect. */
#include <string.h>

#include "common/conf.h"

#include "common/conf_schema.h"
#include "common/conf_types.h"

static bool equal(const struct conf_schema *schema, const void *a, const void *b, const char *but)
{
	for (size_t i = 0; i < schema->n; i++)
		if (strcmp(schema->keys[i].path, but) != 0 && !conf_value_equal(&schema->keys[i], a, b))
			return false;
	return true;
}

static bool equal_strings(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* The user may have got another id or group since. */
static bool equal_resolved(const struct conf_run_as *a, const struct conf_run_as *b)
{
	return a->switch_user == b->switch_user && a->uid == b->uid && a->gid == b->gid && a->ngroups == b->ngroups &&
	    (a->ngroups == 0 || memcmp(a->groups, b->groups, (size_t)a->ngroups * sizeof(*a->groups)) == 0) &&
	    equal_strings(a->home, b->home) && equal_strings(a->login, b->login);
}

bool conf_queue_equal(const struct conf_queue *a, const struct conf_queue *b)
{
	return equal(&conf_schema_queue, a, b, "workers") && equal_resolved(&a->run_as, &b->run_as);
}

bool conf_globals_equal(const struct conf *a, const struct conf *b)
{
	return equal(&conf_schema_global, a, b, "") && equal_strings(a->redis.user, b->redis.user) &&
	    equal_strings(a->redis.password, b->redis.password);
}
