/* The workers of a queue (transit:<q>:workers), and the registry of all queues (quredis:queues, in the form of the Ruby
 * gem). */
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>
#include <jansson.h>

#include "common/queue/moves.h"

#include "common/base/base.h"

static char *dump(json_t *object)
{
	char *text = json_dumps(object, JSON_COMPACT);
	char *copy = alloc_string(text == NULL ? "{}" : text);

	free(text);
	json_decref(object);
	return copy;
}

/* "shared" is stored for hosts that do not configure this queue. */
static char *dump_of_queue(json_t *object, bool shared)
{
	if (shared)
		json_object_set_new(object, "shared", json_true());
	return dump(object);
}

char *queue_registration(const char *lock_identity, const char *node, int pid, int64_t since_ms, int64_t lease_ms,
    bool shared)
{
	return dump_of_queue(json_pack("{s:s, s:s, s:i, s:I, s:I}", "lock", lock_identity, "node", node, "pid", pid,
	    "since", (json_int_t)since_ms, "lease", (json_int_t)lease_ms), shared);
}

void queue_workers(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "HGETALL %s", k->workers);
}

static char *text_member(const json_t *object, const char *key)
{
	const char *s = json_string_value(json_object_get(object, key));

	return alloc_string(s == NULL ? "" : s);
}

/* A script writes it with a fraction; another program may have written anything. */
static int64_t time_member(const json_t *object, const char *key)
{
	return clock_ms_of(json_number_value(json_object_get(object, key)));
}

static int parse_worker(struct queue_worker *w, const struct redis_reply *field, const struct redis_reply *value)
{
	struct incarnation i;
	json_t *object;

	if (field->type != REDIS_STRING || value->type != REDIS_STRING || incarnation_parse(&i, field->str) == -1)
		return -1;
	object = json_loadb(value->str, value->len, 0, NULL);
	/* A registration that cannot be parsed is still an owner: its trays may hold messages. */
	*w = (struct queue_worker){
		.incarnation = alloc_string(field->str),
		.lock = text_member(object, "lock"),
		.node = text_member(object, "node"),
		.pid = json_integer_value(json_object_get(object, "pid")),
		.since_ms = json_integer_value(json_object_get(object, "since")),
		.died_at_ms = time_member(object, "died_at"),
		.lease_ms = time_member(object, "lease"),
		.shared = json_is_true(json_object_get(object, "shared")),
		.stopping = json_object_get(object, QUEUE_STOPPING) != NULL,
		.trial = text_member(object, QUEUE_TRIAL),
	};
	json_decref(object);
	return 0;
}

/* A name of a worker process, for sorting: the names of one process follow each other, the youngest last. */
struct process_name {
	struct incarnation name;
	struct queue_worker *worker;
};

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_process(const struct process_name *a, const struct process_name *b)
{
	int order = compare_numbers((uint64_t)a->worker->pid, (uint64_t)b->worker->pid);

	if (order == 0)
		order = compare_numbers(a->name.boot, b->name.boot);
	if (order == 0)
		order = compare_numbers((uint64_t)a->name.slot, (uint64_t)b->name.slot);
	return order == 0 ? strcmp(a->name.node, b->name.node) : order;
}

static int compare_name(const void *a, const void *b)
{
	const struct process_name *x = a, *y = b;
	int order = compare_process(x, y);

	return order == 0 ? compare_numbers(x->name.generation, y->name.generation) : order;
}

static void mark_superseded(struct queue_worker *workers, size_t n)
{
	struct process_name *names = alloc_zero(n + 1, sizeof(*names)), *youngest;

	for (size_t i = 0; i < n; i++) {
		/* cannot fail: parse_worker() has parsed it */
		incarnation_parse(&names[i].name, workers[i].incarnation);
		names[i].worker = &workers[i];
	}
	qsort(names, n, sizeof(*names), compare_name);
	youngest = n == 0 ? NULL : &names[n - 1];
	for (size_t i = n; i-- > 0;) {
		struct queue_worker *w = names[i].worker;

		if (compare_process(&names[i], youngest) != 0)
			youngest = &names[i];
		w->superseded = w->pid != 0 && w->died_at_ms == 0 &&
		    names[i].name.generation < youngest->name.generation;
	}
	free(names);
}

static int compare_workers(const void *a, const void *b)
{
	return strcmp(((const struct queue_worker *)a)->incarnation, ((const struct queue_worker *)b)->incarnation);
}

size_t queue_workers_parse(const struct redis_reply *reply, struct queue_worker **out)
{
	size_t n = 0;

	*out = NULL;
	if (reply->type != REDIS_ARRAY)
		return 0;
	*out = alloc_zero(reply->n / 2 + 1, sizeof(**out));
	for (size_t i = 0; i + 1 < reply->n; i += 2) {
		struct redis_reply field = redis_element(reply, i), value = redis_element(reply, i + 1);

		if (parse_worker(&(*out)[n], &field, &value) == 0)
			n++;
	}
	qsort(*out, n, sizeof(**out), compare_workers);
	mark_superseded(*out, n);
	return n;
}

const struct queue_worker *queue_workers_find(const struct queue_worker *w, size_t n, const char *incarnation)
{
	const struct queue_worker like = { .incarnation = (char *)(uintptr_t)incarnation };

	return n == 0 ? NULL : bsearch(&like, w, n, sizeof(*w), compare_workers);
}

void queue_workers_free(struct queue_worker *w, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(w[i].incarnation);
		free(w[i].lock);
		free(w[i].node);
		free(w[i].trial);
	}
	free(w);
}

bool queue_workers_share(const struct queue_worker *w, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (w[i].shared)
			return true;
	return false;
}

static const char suffix_of_rescue[] = ":rescue";

/* The incarnation in such a field, without the suffix; NULL: another field. */
static char *rescue_owner(const struct redis_reply *field)
{
	size_t suffix_len = sizeof(suffix_of_rescue) - 1;
	struct incarnation i;
	char *name;

	if (field->type != REDIS_STRING || field->len <= suffix_len ||
	    memcmp(field->str + field->len - suffix_len, suffix_of_rescue, suffix_len) != 0)
		return NULL;
	name = alloc_copy(field->str, field->len - suffix_len);
	if (strcmp(name, QUEUE_NOBODY) == 0)
		name[0] = '\0';
	else if (incarnation_parse(&i, name) == -1) {
		free(name);
		return NULL;
	}
	return name;
}

size_t queue_rescues_parse(const struct redis_reply *reply, char ***out)
{
	size_t n = 0;

	*out = NULL;
	if (reply->type != REDIS_ARRAY)
		return 0;
	*out = alloc_zero(reply->n / 2 + 1, sizeof(**out));
	for (size_t i = 0; i + 1 < reply->n; i += 2) {
		struct redis_reply field = redis_element(reply, i);
		char *name = rescue_owner(&field);

		if (name != NULL)
			(*out)[n++] = name;
	}
	return n;
}

void queue_rescues_free(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

void queue_register(struct redis *r, const struct queue_keys *k, bool again)
{
	char *json = dump_of_queue(json_pack("{s:s, s:s, s:s, s:s}", "name", k->name, "ingress", k->ingress,
	    "transit", k->transit, "escape", k->escape), k->shared);
	char *registry = queue_key_of(r, QUEUE_KEY_REGISTRY, NULL);

	redis_appendf(r, again ? "SET %s %s NX" : "SET %s %s", k->registered, json);
	redis_appendf(r, "ZADD %s NX %d %s", registry, clock_realtime_ms() / 1000, k->name);
	free(registry);
	free(json);
}

static bool are_three(const char *a, const char *b, const char *c)
{
	return a[0] != '\0' && b[0] != '\0' && c[0] != '\0' && strcmp(a, b) != 0 && strcmp(b, c) != 0 &&
	    strcmp(a, c) != 0;
}

int queue_registered_parse(struct queue_keys *k, const char *prefix, const char *name, const char *json, size_t len)
{
	json_t *object = json_loadb(json, len, 0, NULL);
	const char *ingress, *transit, *escape;
	int rc = -1;

	if (json_unpack(object, "{s:s, s:s, s:s}", "ingress", &ingress, "transit", &transit, "escape", &escape) == 0 &&
	    are_three(ingress, transit, escape)) {
		queue_keys_init(k, prefix, name, ingress, transit, escape);
		k->shared = json_is_true(json_object_get(object, "shared"));
		rc = 0;
	}
	json_decref(object);
	return rc;
}
