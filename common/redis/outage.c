/* Which errors a process has logged since Redis worked last: see outage.h. */
#include <ctype.h>

#include "common/redis/outage.h"

#define FNV_OFFSET UINT64_C(14695981039346656037)
#define FNV_PRIME UINT64_C(1099511628211)

/* FNV-1a of a whole text without its digits: ports, slots and times change from one attempt to the next. */
static uint64_t add_to_hash(uint64_t hash, const char *text)
{
	for (; *text != '\0'; text++)
		if (!isdigit((unsigned char)*text))
			hash = (hash ^ (unsigned char)*text) * FNV_PRIME;
	return (hash ^ 0xff) * FNV_PRIME;	/* the end, so that "a", "bc" is not "ab", "c" */
}

static bool was_logged(const struct redis_outage *o, uint64_t kind)
{
	for (size_t i = 0; i < o->nkinds; i++)
		if (o->kinds[i] == kind)
			return true;
	return false;
}

bool redis_outage_is_news(struct redis_outage *o, const char *at, const char *text, int64_t least_ms, int64_t now_ms)
{
	uint64_t kind = add_to_hash(add_to_hash(FNV_OFFSET, at), text);

	if (o->nkinds == REDIS_OUTAGE_KINDS || was_logged(o, kind) || (o->nkinds > 0 && now_ms - o->logged_ms < least_ms))
		return false;
	o->kinds[o->nkinds++] = kind;
	o->logged_ms = now_ms;
	return true;
}

bool redis_outage_logged(const struct redis_outage *o)
{
	return o->nkinds > 0;
}

bool redis_outage_end(struct redis_outage *o)
{
	bool logged = redis_outage_logged(o);

	o->nkinds = 0;
	return logged;
}
