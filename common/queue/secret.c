/*
 * The secrets of common/message/seal.c in Redis. Every process that reads or writes sealed lines runs secret.lua while it opens a
 * connection, before it sends anything else there. The script merges two lists: what Redis has, and what the process knows.
 * So these hold:
 *
 *	- A Redis that has a sealed line has the secret of that line, because the connection that wrote the line had written the
 *	  secret before. A Redis that returns to an earlier state loses later secrets only with the lines they sealed.
 *	- Two hosts that start at once agree: the script creates a secret only if neither list has any, and returns it.
 *	- A process that finds a seal which it cannot verify reads the secrets again before it treats the line as payload.
 *
 * "Owner" below is a worker, a sweeper or a command that seals lines: it creates the first secret. A command that only reads
 * (create false) creates none, so that reading changes nothing in Redis; without a secret every line is payload to it.
 */
#include <stdlib.h>

#include "common/queue/moves.h"

#include "common/message/message.h"
#include "common/queue/scripts.h"

void queue_secret(struct redis *r, bool create)
{
	char *none = queue_key_of(r, QUEUE_KEY_NO_SECRET, NULL), *secret = queue_key_of(r, QUEUE_KEY_SECRET, NULL);
	char fresh[2 * SEAL_SECRET_BYTES + 1] = "", list[SEAL_LIST_SIZE];

	if (create)
		seal_fresh(fresh);
	seal_list(list);
	queue_script(r, QUEUE_SCRIPT_secret, 2, (const char *[]){ none, secret }, 2, (struct script_arg[]){ script_string(fresh), script_string(list) });
	free(none);
	free(secret);
}

int queue_secret_learn(const struct redis_reply *reply)
{
	return reply->type == REDIS_STRING ? seal_learn(reply->str) : -1;
}

/* ---- at the start of a connection ---- */

static void greet_as_owner(struct redis *r)
{
	queue_scripts_load(r);
	queue_secret(r, true);
}

static const char *greeted_as_owner(const struct redis_reply *last)
{
	return queue_secret_learn(last) == -1 ? "unexpected reply from Redis when reading the secrets (quredis:secret)" : NULL;
}

static void greet_as_reader(struct redis *r)
{
	queue_scripts_load(r);
	queue_secret(r, false);
}

static const char *greeted_as_reader(const struct redis_reply *last)
{
	return last->type == REDIS_STRING && last->len == 0 ? NULL : greeted_as_owner(last);
}

void queue_greets(struct redis *r, bool create)
{
	r->greet = create ? greet_as_owner : greet_as_reader;
	r->greeted = create ? greeted_as_owner : greeted_as_reader;
}
