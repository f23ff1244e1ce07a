/* Which errors a process has logged since Redis worked last: see outage.h. */
#include <ctype.h>

#include "common/redis/outage.h"

#include "common/base/base.h"

/* A whole text without its digits: ports, slots and times change from one attempt to the next. */
static uint64_t add_without_digits(uint64_t hash, const char *text)
{
	for (; *text != '\0'; text++)
		if (!isdigit((unsigned char)*text))
			hash = hash_byte(hash, (unsigned char)*text);
	return hash_byte(hash, 0xff);	/* the end, so that "a", "bc" is not "ab", "c" */
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
	uint64_t kind = add_without_digits(add_without_digits(HASH_EMPTY, at), text);

	if (o->nkinds == REDIS_OUTAGE_KINDS || was_logged(o, kind) ||
	    (o->nkinds > 0 && now_ms - o->logged_ms < least_ms))
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
