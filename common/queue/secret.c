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
 * The same script checks the layout of the keys (quredis:schema) before it reads or writes anything else, so a connection to keys that this program
 * does not understand fails, and a newer program that starts stops this one: the sweeper runs the script every ten seconds.
 *
 * "Owner" below is a worker, a sweeper or a command that seals lines: it creates the first secret. A command that only reads
 * (create false) creates none, so that reading changes nothing in Redis; without a secret every line is payload to it.
 */
#include <stdlib.h>

#include "common/queue/moves.h"

#include "common/message/message.h"
#include "common/queue/scripts.h"

/*
 * The layout of the keys: their names, their types and what is in them. docs/versions.md says when these numbers change; a build may set others, for tests.
 * LOWEST: programs that write a lower layout may not work beside this one. READS: this program understands no lower one.
 */
#ifndef QUREDIS_SCHEMA
#define QUREDIS_SCHEMA 2
#define QUREDIS_SCHEMA_LOWEST 2
#define QUREDIS_SCHEMA_READS 2
#endif
_Static_assert(QUREDIS_SCHEMA_LOWEST <= QUREDIS_SCHEMA && QUREDIS_SCHEMA_READS <= QUREDIS_SCHEMA, "a program works beside itself");

void queue_secret(struct redis *r, bool create)
{
	char *none = queue_key_of(r, QUEUE_KEY_NO_SECRET, NULL), *secret = queue_key_of(r, QUEUE_KEY_SECRET, NULL);
	char *schema = queue_key_of(r, QUEUE_KEY_SCHEMA, NULL);
	struct script_number own, lowest, reads;
	char fresh[2 * SEAL_SECRET_BYTES + 1] = "", list[SEAL_LIST_SIZE];

	if (create)
		seal_fresh(fresh);
	seal_list(list);
	queue_script(r, QUEUE_SCRIPT_secret, 3, (const char *[]){ none, secret, schema }, 5, (struct script_arg[]){ script_string(fresh), script_string(list),
	    script_number(&own, QUREDIS_SCHEMA), script_number(&lowest, QUREDIS_SCHEMA_LOWEST), script_number(&reads, QUREDIS_SCHEMA_READS) });
	free(schema);
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
