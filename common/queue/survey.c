/* Finds keys by SCAN, and parses the name of a key into its meaning. The callers check the contents. */
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/queue/survey.h"

#include "common/base/base.h"

#define RESCUE "rescue"
#define LEASE "lease:"
#define SCRATCH "scratch:"

/* Escapes the characters that have a meaning in a pattern. */
static char *escape_pattern(const char *prefix)
{
	struct buffer b = {0};

	for (const char *p = prefix; *p != '\0'; p++)
		buffer_format(&b, "%s%c", strchr("*?[]\\", *p) != NULL ? "\\" : "", *p);
	buffer_append(&b, "*", 2);
	return b.data;
}

void queue_scan(struct redis *r, const char *cursor, const char *prefix, int64_t count)
{
	char *pattern = escape_pattern(prefix);

	redis_appendf(r, "SCAN %s MATCH %s COUNT %d", cursor, pattern, count);
	free(pattern);
}

/* "<incarnation>:<tray>" */
static int parse_tray(struct queue_place *p, const char *rest)
{
	const char *colon = strrchr(rest, ':');
	struct incarnation i;

	if (colon == NULL || (size_t)(colon - rest) >= sizeof(p->incarnation))
		return -1;
	memcpy(p->incarnation, rest, (size_t)(colon - rest));
	p->incarnation[colon - rest] = '\0';
	if (incarnation_parse(&i, p->incarnation) == -1)
		return -1;
	if (strcmp(colon + 1, RESCUE) == 0)
		p->tray = QUEUE_RESCUE;
	else if (colon[1] >= '0' && colon[1] < '0' + QUEUE_TRAYS && colon[2] == '\0')
		p->tray = colon[1] - '0';
	else
		return -1;
	return 0;
}

static enum queue_place_kind kind_of(struct queue_place *p, const char *rest)
{
	struct incarnation i;

	if (strcmp(rest, "workers") == 0)
		return QUEUE_PLACE_WORKERS;
	if (strcmp(rest, RESCUE) == 0)
		return QUEUE_PLACE_BARE_RESCUE;
	if (strcmp(rest, "aside") == 0 || strcmp(rest, "aside:log") == 0)
		return QUEUE_PLACE_ASIDE;
	if (strncmp(rest, SCRATCH, sizeof(SCRATCH) - 1) == 0)
		return QUEUE_PLACE_SCRATCH;
	if (strncmp(rest, LEASE, sizeof(LEASE) - 1) == 0 && incarnation_parse(&i, rest + sizeof(LEASE) - 1) == 0) {
		strlcpy(p->incarnation, rest + sizeof(LEASE) - 1, sizeof(p->incarnation));
		return QUEUE_PLACE_LEASE;
	}
	return parse_tray(p, rest) == 0 ? QUEUE_PLACE_TRAY : QUEUE_PLACE_UNKNOWN;
}

int queue_place_parse(struct queue_place *p, const struct queue_keys *k, const void *key, size_t len)
{
	size_t transit = strlen(k->transit);
	char *name;

	*p = (struct queue_place){ .kind = QUEUE_PLACE_UNKNOWN };
	if (len <= transit || memcmp(key, k->transit, transit) != 0 || ((const char *)key)[transit] != ':')
		return -1;
	name = alloc_copy(key, len);
	if (strlen(name) == len)	/* a name with a NUL was not made by quredis */
		p->kind = kind_of(p, name + transit + 1);
	free(name);
	return 0;
}

void queue_knows_worker(struct redis *r, const struct queue_keys *k, const char *incarnation)
{
	redis_appendf(r, "HEXISTS %s %s", k->workers, incarnation);
}

void queue_lease_left(struct redis *r, const struct queue_keys *k, const char *incarnation)
{
	char *lease = queue_lease_key(k, incarnation);

	redis_appendf(r, "PTTL %s", lease);
	free(lease);
}

void queue_record_forget(struct redis *r, const struct queue_keys *k, const char *record_id)
{
	redis_appendf(r, "XDEL %s %s", k->log, record_id);
}
