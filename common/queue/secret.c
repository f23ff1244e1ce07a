/*
 * The secrets of common/message/seal.c in Redis. Every process that reads or writes sealed lines runs secret.lua while it opens a
 * connection, before it sends anything else there. The script merges two lists: what Redis has, and what the process knows.
 * So these hold:
 *
 *	- A Redis that has a sealed line has the secret of that line, because the connection that wrote the line had written the
 *	  secret before. A Redis that returns to an earlier state loses later secrets only with the lines they sealed.
 *	- Two hosts that start at once agree: the script creates a secret only if neither list has any, and returns it.
 *	- A secret that was lost is not replaced by a new one. The script creates the first secret only if there is no trace of quredis: no quredis:schema,
 *	  which it writes right after that, and no key that only a process with a secret writes (TRACE in common/queue/types.c). There may be thousands of
 *	  queues, so a process asks for them only if its first request found no secret: the answer names the queues in the registry, a second request reads
 *	  their entries, a third names the traces. If there is one, the process waits for another that knows the secret, or for an operator
 *	  (queue_secret_replace()).
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
#include "common/queue/watch.h"

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

/* Of the registry, the queues that were registered or confirmed last are asked, so that one request is bounded. */
#define REGISTERED_MAX 1000

/* The one question that is open; each further step follows from an answer. */
static struct {
	enum { ASKED_SECRETS, ASKED_REGISTERED, ASKED_TRACES } step;
	bool create;
	const struct queue_keys *named;
	size_t n;
	char *names[REGISTERED_MAX];	/* owned: of queues in the registry */
} question;

#define KEYS_ALWAYS 4
#define ARGS_ALWAYS 6

/* traces: n lists of keys that show that quredis was here; none: the script creates no first secret. */
static void send_secret(struct redis *r, bool create, bool anew, const struct queue_types *traces, size_t n)
{
	size_t nkeys = KEYS_ALWAYS, nargs = ARGS_ALWAYS;
	const char **keys = alloc_zero(KEYS_ALWAYS + n * QUEUE_TYPES_MAX, sizeof(*keys));
	struct script_arg *args = alloc_zero(ARGS_ALWAYS + n * QUEUE_TYPES_MAX, sizeof(*args));
	char *none = queue_key_of(r, QUEUE_KEY_NO_SECRET, NULL), *secret = queue_key_of(r, QUEUE_KEY_SECRET, NULL);
	char *schema = queue_key_of(r, QUEUE_KEY_SCHEMA, NULL), *registry = queue_key_of(r, QUEUE_KEY_REGISTRY, NULL);
	char fresh[2 * SEAL_SECRET_BYTES + 1] = "", list[SEAL_LIST_SIZE];
	struct script_number own, lowest, reads;

	if (create)
		seal_fresh(fresh);
	seal_list(list);
	memcpy(keys, (const char *[KEYS_ALWAYS]){ none, secret, schema, registry }, KEYS_ALWAYS * sizeof(*keys));
	memcpy(args, (struct script_arg[ARGS_ALWAYS]){ script_string(fresh), script_string(list), script_number(&own, QUREDIS_SCHEMA),
	    script_number(&lowest, QUREDIS_SCHEMA_LOWEST), script_number(&reads, QUREDIS_SCHEMA_READS), script_string(anew ? "1" : "") },
	    ARGS_ALWAYS * sizeof(*args));
	for (size_t i = 0; i < n; i++)
		for (size_t row = 0; row < traces[i].n; row++) {
			keys[nkeys++] = traces[i].of[row].key;
			args[nargs++] = script_string(traces[i].of[row].type == NULL ? "" : traces[i].of[row].type);
		}
	queue_script(r, QUEUE_SCRIPT_secret, nkeys, keys, nargs, args);
	free(registry);
	free(schema);
	free(secret);
	free(none);
	free(args);
	free(keys);
}

static void forget_names(void)
{
	while (question.n > 0)
		free(question.names[--question.n]);
}

void queue_secret(struct redis *r, bool create, const struct queue_keys *k)
{
	forget_names();
	question.step = ASKED_SECRETS;
	question.create = create;
	question.named = k;
	send_secret(r, create, false, NULL, 0);
}

static bool ask_registered(struct redis *r, const struct redis_reply *names)
{
	for (size_t i = 0; i < names->n && question.n < REGISTERED_MAX; i++) {
		struct redis_reply name = redis_element(names, i);

		if (name.type == REDIS_STRING)
			question.names[question.n++] = alloc_copy(name.str, name.len);
	}
	if (question.n == 0)
		return false;
	question.step = ASKED_REGISTERED;
	queue_registered_all(r, question.names, question.n);
	return true;
}

static void add_registered(struct queue_types *t, const char *prefix, const char *name, const struct redis_reply *entry)
{
	struct queue_keys of;

	if (entry->type != REDIS_STRING || queue_registered_parse(&of, prefix, name, entry->str, entry->len) == -1)
		queue_keys_default(&of, prefix, name);
	queue_types_add_traces(t, &of);
	queue_keys_free(&of);
}

/* entries: of the registry; not an ARRAY: it names no queue */
static void ask_traces(struct redis *r, const struct redis_reply *entries)
{
	size_t queues = served == NULL ? 0 : served->nqueues, n = 0;
	struct queue_types *traces = alloc_zero(queues + question.n + 2, sizeof(*traces));

	queue_types_add_traces_common(&traces[n++], redis_prefix(r), served == NULL ? NULL : served->supervisor.node);
	if (question.named != NULL && question.named->name != NULL)
		queue_types_add_traces(&traces[n++], question.named);
	for (size_t i = 0; i < queues; i++) {
		struct queue_keys of;

		queue_keys_from_conf(&of, served, served->queues[i]);
		queue_types_add_traces(&traces[n++], &of);
		queue_keys_free(&of);
	}
	for (size_t i = 0; i < question.n && i < entries->n; i++) {
		struct redis_reply entry = redis_element(entries, i);

		add_registered(&traces[n++], redis_prefix(r), question.names[i], &entry);
	}
	forget_names();
	question.step = ASKED_TRACES;
	send_secret(r, question.create, false, traces, n);
	while (n > 0)
		queue_types_free(&traces[--n]);
	free(traces);
}

bool queue_secret_asks_on(struct redis *r, const struct redis_reply *reply)
{
	if (reply->type != REDIS_ARRAY || question.step == ASKED_TRACES)
		return false;
	if (question.step == ASKED_REGISTERED || !ask_registered(r, reply))
		ask_traces(r, reply);
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

static void greet_as_owner(struct redis *r)
{
	queue_scripts_load(r);
	queue_secret(r, true, NULL);
}

static const char *greeted_as_owner(struct redis *r, const struct redis_reply *last)
{
	if (queue_secret_asks_on(r, last))
		return NULL;
	return queue_secret_learn(last) == -1 ? "unexpected reply from Redis when reading the secrets (quredis:secret)" : NULL;
}

static void greet_as_reader(struct redis *r)
{
	queue_scripts_load(r);
	queue_secret(r, false, NULL);
}

static const char *greeted_as_reader(struct redis *r, const struct redis_reply *last)
{
	const char *refused = last->type == REDIS_ARRAY ? NULL : greeted_as_owner(r, last);

	return lost[0] != '\0' ? NULL : refused;
}

void queue_greets(struct redis *r, bool create, const struct conf *conf)
{
	served = conf;
	r->greet = create ? greet_as_owner : greet_as_reader;
	r->greeted = create ? greeted_as_owner : greeted_as_reader;
}
