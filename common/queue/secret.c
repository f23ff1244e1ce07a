/*
 * The secrets of common/message/seal.c in Redis. Every process that reads or writes sealed lines runs secret.lua while
 * it opens a connection, before it sends anything else there. The script merges two lists: what Redis has, and what the
 * process knows. So these hold:
 *
 *	- A Redis that has a sealed line has the secret of that line, because the connection that wrote the line had
 *	  written the secret before. A Redis that returns to an earlier state loses later secrets only with the lines
 *	  they sealed.
 *	- Two hosts that start at once agree: the script creates a secret only if neither list has any, and returns it.
 *	- A secret that was lost is not replaced by a new one. The script creates the first secret only if there is no
 *	  trace of quredis: no quredis:schema, which it writes right after that, and no key that only a process with a
 *	  secret writes (TRACE in common/queue/types.c). There may be thousands of queues, so a process asks for them
 *	  only if its first request found no secret: the answer names the queues in the registry, a second request reads
 *	  their entries, a third names the traces. If there is one, the process waits for another that knows the secret,
 *	  or for an operator (queue_secret_replace()). The connection remembers how far its question is (struct redis,
 *	  asking), since a process may open several at once.
 *	- A process that finds a seal which it cannot verify reads the secrets again before the message escapes.
 *
 * The same script checks the layout of the keys (quredis:schema) before it reads or writes anything else, so a
 * connection to keys that this program does not understand fails, and a newer program that starts stops this one: the
 * sweeper runs the script every ten seconds.
 *
 * "Owner" below is a worker or a command that seals lines: it creates the first secret, and its connection fails if
 * that is lost. A command that only reads (owner false) creates none, so that reading changes nothing in Redis. Nor
 * does a connection of the sweeper, which reports the loss.
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
#include "common/queue/watch.h"

/*
 * The layout of the keys: their names, their types and what is in them. docs/versions.md says when these numbers
 * change; a build may set others, for tests. LOWEST: programs that write a lower layout may not work beside this one.
 * READS: this program understands no lower one.
 */
#ifndef QUREDIS_SCHEMA
#define QUREDIS_SCHEMA 2
#define QUREDIS_SCHEMA_LOWEST 2
#define QUREDIS_SCHEMA_READS 2
#endif
_Static_assert(QUREDIS_SCHEMA_LOWEST <= QUREDIS_SCHEMA && QUREDIS_SCHEMA_READS <= QUREDIS_SCHEMA,
    "a program works beside itself");

static char lost[QUEUE_SECRET_LOST_SIZE];

/* Of the registry, the queues that were registered or confirmed last are asked, so that one request is bounded. */
#define REGISTERED_MAX 1000

/* The last question of a connection (asking of struct redis); NULL: it asked for the secrets. */
struct question {
	bool traces;		/* the traces; else the entries of these queues in the registry */
	size_t n;
	char *names[];		/* point behind the last of them */
};

#define KEYS_ALWAYS 4
#define ARGS_ALWAYS 6

/* traces: keys that show that quredis was here; none: the script creates no first secret. */
static void send_secret(struct redis *r, bool owner, bool anew, const struct queue_types *traces)
{
	const char **keys = alloc_zero(KEYS_ALWAYS + traces->n, sizeof(*keys));
	struct script_arg *args = alloc_zero(ARGS_ALWAYS + traces->n, sizeof(*args));
	char *none = queue_key_of(r, QUEUE_KEY_NO_SECRET, NULL), *secret = queue_key_of(r, QUEUE_KEY_SECRET, NULL);
	char *schema = queue_key_of(r, QUEUE_KEY_SCHEMA, NULL), *registry = queue_key_of(r, QUEUE_KEY_REGISTRY, NULL);
	char fresh[2 * SEAL_SECRET_BYTES + 1] = "", list[SEAL_LIST_SIZE];
	struct script_number own, lowest, reads;

	if (owner)
		seal_fresh(fresh);
	seal_list(list);
	memcpy(keys, (const char *[KEYS_ALWAYS]){ none, secret, schema, registry }, KEYS_ALWAYS * sizeof(*keys));
	memcpy(args, (struct script_arg[ARGS_ALWAYS]){ script_string(fresh), script_string(list),
	    script_number(&own, QUREDIS_SCHEMA),
	    script_number(&lowest, QUREDIS_SCHEMA_LOWEST), script_number(&reads, QUREDIS_SCHEMA_READS),
	    script_string(anew ? "1" : "") }, ARGS_ALWAYS * sizeof(*args));
	for (size_t i = 0; i < traces->n; i++) {
		keys[KEYS_ALWAYS + i] = traces->of[i].key;
		args[ARGS_ALWAYS + i] = script_string(traces->of[i].type == NULL ? "" : traces->of[i].type);
	}
	queue_script(r, QUEUE_SCRIPT_secret, KEYS_ALWAYS + traces->n, keys, ARGS_ALWAYS + traces->n, args);
	free(registry);
	free(schema);
	free(secret);
	free(none);
	free(args);
	free(keys);
}

/* Replaces the old question. */
static struct question *new_question(struct redis *r, size_t names, size_t text_size)
{
	struct question *q = alloc_zero(1, sizeof(*q) + names * sizeof(*q->names) + text_size);

	free(r->asking);
	r->asking = q;
	return q;
}

void queue_secret(struct redis *r, bool owner)
{
	free(r->asking);
	r->asking = NULL;
	send_secret(r, owner, false, &(struct queue_types){0});
}

/* names: the reply that lists the queues in the registry. false: there is none, so there is nothing to ask */
static bool ask_registered(struct redis *r, const struct redis_reply *names)
{
	size_t n = names->n < REGISTERED_MAX ? names->n : REGISTERED_MAX, size = 0;
	struct question *q;
	char *at;

	for (size_t i = 0; i < n; i++)
		size += redis_element(names, i).len + 1;
	q = new_question(r, n, size);
	at = (char *)&q->names[n];
	for (size_t i = 0; i < n; i++) {
		struct redis_reply name = redis_element(names, i);

		if (name.type != REDIS_STRING)
			continue;
		q->names[q->n++] = memcpy(at, name.str, name.len);
		at += name.len + 1;
	}
	if (q->n > 0)
		queue_registered_all(r, q->names, q->n);
	return q->n > 0;
}

static void add_registered(struct queue_types *t, const char *prefix, const char *name, const struct redis_reply *entry)
{
	struct queue_keys of;

	if (entry->type != REDIS_STRING || queue_registered_parse(&of, prefix, name, entry->str, entry->len) == -1)
		queue_keys_default(&of, prefix, name);
	queue_types_add_traces(t, &of);
	queue_keys_free(&of);
}

/* entries: of the registry; with question->n 0 it names no queue */
static void ask_traces(struct redis *r, bool owner, const struct queue_keys *k, const struct redis_reply *entries)
{
	const struct conf *conf = r->greet_arg;
	const struct question *q = r->asking;
	struct queue_types traces = {0};

	queue_types_add_traces_common(&traces, redis_prefix(r));
	if (k != NULL && k->name != NULL)
		queue_types_add_traces(&traces, k);
	for (size_t i = 0; conf != NULL && i < conf->nqueues; i++) {
		struct queue_keys of;

		queue_keys_from_conf(&of, conf, conf->queues[i]);
		queue_types_add_traces(&traces, &of);
		queue_keys_free(&of);
	}
	for (size_t i = 0; i < q->n && i < entries->n; i++) {
		struct redis_reply entry = redis_element(entries, i);

		add_registered(&traces, redis_prefix(r), q->names[i], &entry);
	}
	new_question(r, 0, 0)->traces = true;
	send_secret(r, owner, false, &traces);
	queue_types_free(&traces);
}

bool queue_secret_ask_again(struct redis *r, bool owner, const struct queue_keys *k, const struct redis_reply *reply)
{
	const struct question *q = r->asking;

	if (reply->type != REDIS_ARRAY || (q != NULL && q->traces))
		return false;
	if (q != NULL || !ask_registered(r, reply))
		ask_traces(r, owner, k, reply);
	return true;
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
	send_secret(r, true, true, &(struct queue_types){0});
}

const char *queue_secret_lost(void)
{
	return lost;
}

int queue_secret_learn(const struct redis_reply *reply)
{
	static const char code[] = "SECRET ";
	bool text = reply->type == REDIS_STRING || reply->type == REDIS_ERROR,
	    said = text && strncmp(reply->str, code, strlen(code)) == 0;

	strlcpy(lost, said ? reply->str + strlen(code) : "", sizeof(lost));
	return reply->type == REDIS_STRING && !said ? seal_learn(reply->str) : -1;
}

/* ---- at the start of a connection ---- */

static void greet_as_owner(struct redis *r)
{
	queue_scripts_load(r);
	queue_secret(r, true);
}

static const char *greeted_as_owner(struct redis *r, const struct redis_reply *last)
{
	if (queue_secret_ask_again(r, true, NULL, last))
		return NULL;
	return queue_secret_learn(last) == -1 ? "unexpected reply from Redis when reading the secrets (quredis:secret)"
	    : NULL;
}

static void greet_as_reader(struct redis *r)
{
	queue_scripts_load(r);
	queue_secret(r, false);
}

/* A reader does not ask again: it needs no secret. */
static const char *greeted_as_reader(struct redis *r, const struct redis_reply *last)
{
	const char *refused = last->type == REDIS_ARRAY ? NULL : greeted_as_owner(r, last);

	return lost[0] != '\0' ? NULL : refused;
}

void queue_greets(struct redis *r, bool owner, const struct conf *conf)
{
	r->greet = owner ? greet_as_owner : greet_as_reader;
	r->greeted = owner ? greeted_as_owner : greeted_as_reader;
	r->greet_arg = conf;
}

void queue_greets_nothing(struct redis *r)
{
	r->greet = NULL;
	r->greeted = NULL;
}
