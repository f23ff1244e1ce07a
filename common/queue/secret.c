/*
 * The secrets of common/message/seal.c in Redis. Every process that reads or writes sealed lines runs secret.lua while it opens a
 * connection, before it sends anything else there. The script merges two lists: what Redis has, and what the process knows.
 * So these hold:
 *
 *	- A Redis that has a sealed line has the secret of that line, because the connection that wrote the line had written the
 *	  secret before. A Redis that returns to an earlier state loses later secrets only with the lines they sealed.
 *	- Two hosts that start at once agree: the script creates a secret only if neither list has any, and returns it.
 *	- A secret that was lost is not replaced by a new one. The script creates the first secret only if there is no trace of quredis: no quredis:schema,
 *	  which it writes right after that, and no key that a sweeper writes of what it serves (common/queue/types.c). A process names these keys only if its
 *	  first request found no secret: there may be thousands. Else it waits for a process that knows the secret, or an operator (queue_secret_replace()).
 *	- A process that finds a seal which it cannot verify reads the secrets again before the message escapes.
 *
 * The same script checks the layout of the keys (quredis:schema) before it reads or writes anything else, so a connection to keys that this program
 * does not understand fails, and a newer program that starts stops this one: the sweeper runs the script every ten seconds.
 *
 * "Owner" below is a worker or a command that seals lines: it creates the first secret, and its connection fails if that is lost. A command that only reads
 * (create false) creates none, so that reading changes nothing in Redis. Nor does a connection of the sweeper, which reports the loss.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/queue/types.h"

#include "common/base/base.h"
#include "common/conf/conf.h"
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

static char lost[QUEUE_SECRET_LOST_SIZE];

/* The configuration of this process. The keys of its queues show whether quredis was here; NULL: no configuration is known. */
static const struct conf *served;

#define KEYS_ALWAYS 3
#define ARGS_ALWAYS 6

/* traces: n lists of keys that only sweepers write; none: the script creates no first secret. */
static void send_secret(struct redis *r, bool create, bool anew, const struct queue_types *traces, size_t n)
{
	size_t nkeys = KEYS_ALWAYS, nargs = ARGS_ALWAYS;
	const char **keys = alloc_zero(KEYS_ALWAYS + n * QUEUE_TYPES_MAX, sizeof(*keys));
	struct script_arg *args = alloc_zero(ARGS_ALWAYS + n * QUEUE_TYPES_MAX, sizeof(*args));
	char *none = queue_key_of(r, QUEUE_KEY_NO_SECRET, NULL), *secret = queue_key_of(r, QUEUE_KEY_SECRET, NULL);
	char *schema = queue_key_of(r, QUEUE_KEY_SCHEMA, NULL);
	char fresh[2 * SEAL_SECRET_BYTES + 1] = "", list[SEAL_LIST_SIZE];
	struct script_number own, lowest, reads;

	if (create)
		seal_fresh(fresh);
	seal_list(list);
	memcpy(keys, (const char *[KEYS_ALWAYS]){ none, secret, schema }, KEYS_ALWAYS * sizeof(*keys));
	memcpy(args, (struct script_arg[ARGS_ALWAYS]){ script_string(fresh), script_string(list), script_number(&own, QUREDIS_SCHEMA),
	    script_number(&lowest, QUREDIS_SCHEMA_LOWEST), script_number(&reads, QUREDIS_SCHEMA_READS), script_string(anew ? "1" : "") },
	    ARGS_ALWAYS * sizeof(*args));
	for (size_t i = 0; i < n; i++)
		for (size_t row = 0; row < traces[i].n; row++) {
			keys[nkeys++] = traces[i].of[row].key;
			args[nargs++] = script_string(traces[i].of[row].type);
		}
	queue_script(r, QUEUE_SCRIPT_secret, nkeys, keys, nargs, args);
	free(schema);
	free(secret);
	free(none);
	free(args);
	free(keys);
}

void queue_secret(struct redis *r, bool create)
{
	send_secret(r, create, false, NULL, 0);
}

void queue_secret_first(struct redis *r, bool create, const struct queue_keys *k)
{
	size_t queues = served == NULL ? 0 : served->nqueues, n = queues + 2;
	struct queue_types *traces = alloc_zero(n, sizeof(*traces));

	for (size_t i = 0; i < queues; i++) {
		struct queue_keys of;

		queue_keys_from_conf(&of, served, served->queues[i]);
		queue_types_add_traces(&traces[i], &of);
		queue_keys_free(&of);
	}
	if (k != NULL && k->name != NULL)
		queue_types_add_traces(&traces[queues], k);
	queue_types_add_traces_common(&traces[queues + 1], redis_prefix(r), served == NULL ? NULL : served->supervisor.node);
	send_secret(r, create, false, traces, n);
	for (size_t i = 0; i < n; i++)
		queue_types_free(&traces[i]);
	free(traces);
}

bool queue_secret_is_none(const struct redis_reply *reply)
{
	return reply->type == REDIS_STRING && reply->len == 0;
}

void queue_secret_set_aside(struct redis *r, int n)
{
	char number[8], *secret = queue_key_of(r, QUEUE_KEY_SECRET, NULL), *aside;

	snprintf(number, sizeof(number), ":%d", n);
	aside = queue_key_of(r, QUEUE_KEY_SECRET_ASIDE, n == 1 ? NULL : number);
	redis_appendf(r, "RENAMENX %s %s", secret, aside);
	free(aside);
	free(secret);
}

void queue_secret_replace(struct redis *r)
{
	send_secret(r, true, true, NULL, 0);
}

const char *queue_secret_lost(void)
{
	return lost;
}

int queue_secret_learn(const struct redis_reply *reply)
{
	static const char code[] = "SECRET ";
	bool text = reply->type == REDIS_STRING || reply->type == REDIS_ERROR, said = text && strncmp(reply->str, code, strlen(code)) == 0;

	strlcpy(lost, said ? reply->str + strlen(code) : "", sizeof(lost));
	return reply->type == REDIS_STRING && !said ? seal_learn(reply->str) : -1;
}

/* ---- at the start of a connection ---- */

static bool asked_first;	/* while this connection opens */

static void greet_as_owner(struct redis *r)
{
	asked_first = false;
	queue_scripts_load(r);
	queue_secret(r, true);
}

static const char *greeted_as_owner(struct redis *r, const struct redis_reply *last)
{
	if (queue_secret_is_none(last) && !asked_first) {
		asked_first = true;
		queue_secret_first(r, true, NULL);
		return NULL;
	}
	return queue_secret_learn(last) == -1 ? "unexpected reply from Redis when reading the secrets (quredis:secret)" : NULL;
}

static void greet_as_reader(struct redis *r)
{
	queue_scripts_load(r);
	queue_secret(r, false);
}

static const char *greeted_as_reader(struct redis *r, const struct redis_reply *last)
{
	const char *refused = queue_secret_is_none(last) ? NULL : greeted_as_owner(r, last);

	return lost[0] != '\0' ? NULL : refused;
}

void queue_greets(struct redis *r, bool create, const struct conf *conf)
{
	served = conf;
	r->greet = create ? greet_as_owner : greet_as_reader;
	r->greeted = create ? greeted_as_owner : greeted_as_reader;
}
