/*
 * A message that Redis does not deliver. If an answer is longer than client-output-buffer-limit allows (or
 * maxmemory-clients, or a proxy between), the server closes the connection instead. The message is in a tray then, and
 * every later attempt to read that tray ends in the same way.
 *
 * After LOSSES connections that the server closed while the trays were read, the worker reads them one message at a
 * time: first the size, the beginning and the end of a message (look.lua), then all of it, alone. Redis must break the
 * connection ALONE times in a row, each time while only this message was awaited, before the message escapes, unread,
 * as Undeliverable. That excludes the other suspects: on each of these connections, and on the one after, the server
 * has answered other requests; it has not restarted meanwhile (its identity); and a standstill does not count, since
 * the server must have closed the connection. A server that hides its identity cannot be told from one that restarts,
 * so there nothing escapes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "worker/worker.h"

#include "common/base/base.h"

#define LOSSES 3
#define ALONE 3

enum step { STEP_LIMIT, STEP_LOOK, STEP_WHOLE, STEP_DIGEST, STEP_ESCAPE };

static void expect_step(struct worker *w, enum step step, int64_t now_ms)
{
	session_expect(w, ANSWER_UNDELIVERABLE, w->undeliverable.tray, (int)step, now_ms + REDIS_TIMEOUT_MS);
}

/* ---- evidence ---- */

static bool is_known_server(const struct worker *w, const struct redis_identity *server)
{
	return redis_identity_known(&w->session.server) && redis_identity_same(server, &w->session.server);
}

/* The operator may have raised the limit since: one more failure must confirm it. */
static bool is_proved(const struct worker *w, size_t size)
{
	return w->undeliverable.proved.size > 0 && size >= w->undeliverable.proved.size &&
	    is_known_server(w, &w->undeliverable.proved.server);
}

static bool exceeds_limit(const struct worker *w)
{
	return w->undeliverable.limit > 0 && (int64_t)w->undeliverable.size > w->undeliverable.limit;
}

static uint64_t sum_of_ends(const struct undeliverable *u)
{
	char sha1[ENCODE_SHA1_SIZE];
	struct buffer ends = {0};
	uint64_t sum;

	buffer_append(&ends, u->head.data, u->head.len);
	if (u->tail.len > 0)
		buffer_append(&ends, u->tail.data, u->tail.len);
	encode_sha1(ends.data, ends.len, sha1);
	buffer_free(&ends);
	sha1[16] = '\0';
	sum = strtoull(sha1, NULL, 16);
	return sum;
}

static bool is_suspect(const struct worker *w)
{
	const struct undeliverable *u = &w->undeliverable;

	return u->suspect.times > 0 && u->suspect.size == u->size && u->suspect.sum == sum_of_ends(u) &&
	    is_known_server(w, &u->suspect.server);
}

static bool is_proved_undeliverable(const struct worker *w)
{
	return is_suspect(w) && w->undeliverable.suspect.times >=
	    (is_proved(w, w->undeliverable.size) || exceeds_limit(w) ? 1 : ALONE);
}

static void count_loss(struct worker *w)
{
	struct undeliverable *u = &w->undeliverable;
	int before = is_suspect(w) ? u->suspect.times : 0;

	u->suspect = (struct suspect){ .size = u->size, .sum = sum_of_ends(u), .times = before + 1,
	    .server = w->session.server };
}

static void forget_read(struct undeliverable *u)
{
	for (size_t i = 0; i < u->nread; i++)
		free((void *)(uintptr_t)u->read[i].raw);
	free(u->read);
	u->read = NULL;
	u->nread = 0;
}

static void judge_loss(struct worker *w, bool requested)
{
	struct undeliverable *u = &w->undeliverable;

	/* The loss of a connection in another way, such as no answer in time, says nothing about a message. */
	u->last_was_closed = w->session.renewing && w->session.redis.closed_by_peer;
	if (!w->session.renewing)
		return;
	if (!u->last_was_closed) {
		u->suspect.times = 0;
		return;
	}
	u->losses++;
	if (requested && redis_identity_known(&w->session.server))
		count_loss(w);
}

void undeliverable_lost(struct worker *w)
{
	struct undeliverable *u = &w->undeliverable;

	judge_loss(w, u->requested);
	u->requested = false;
	forget_read(u);
	errors_of_connection(&w->errors, !u->last_was_closed || u->losses < 2 ? NULL :
	    "Redis closes the connection while it sends the messages in flight of this worker: "
	    "is one longer than client-output-buffer-limit, or what a proxy allows?");
}

bool undeliverable_reads_singly(const struct worker *w)
{
	return w->undeliverable.losses >= (w->undeliverable.proved.size > 0 ? 1 : LOSSES);
}

void undeliverable_adopted(struct worker *w)
{
	w->undeliverable.losses = 0;
	w->undeliverable.suspect.times = 0;
}

void undeliverable_free(struct worker *w)
{
	struct undeliverable *u = &w->undeliverable;

	forget_read(u);
	buffer_free(&u->head);
	buffer_free(&u->tail);
}

/* ---- the walk ---- */

static const char *list_of(const struct worker *w)
{
	return w->session.owner.trays[w->undeliverable.tray];
}

static void look_at_next(struct worker *w, int64_t now_ms)
{
	queue_look(&w->session.redis, &(struct queue_look){ .key = list_of(w), .first = w->undeliverable.at,
	    .backwards = true, .most = 1, .bytes = 1, .shown = QUEUE_BY_VALUE_MAX, .ends = QUEUE_ENTRY_ENDS });
	expect_step(w, STEP_LOOK, now_ms);
}

static void begin_tray(struct worker *w, int tray, int64_t now_ms)
{
	forget_read(&w->undeliverable);
	w->undeliverable.tray = tray;
	w->undeliverable.at = -1;
	look_at_next(w, now_ms);
}

void undeliverable_read_trays(struct worker *w)
{
	if (!undeliverable_reads_singly(w)) {
		adopt_read_trays(w);
		return;
	}
	w->undeliverable.tray = 0;
	w->undeliverable.limit = 0;
	redis_appendf(&w->session.redis, "CONFIG GET client-output-buffer-limit");
	expect_step(w, STEP_LIMIT, w->now_us / 1000);
	begin_tray(w, 0, w->now_us / 1000);
}

/* The answer: "normal HARD SOFT SECONDS slave ..." A server that refuses CONFIG tells nothing. */
static void limit_answer(struct worker *w, const struct redis_reply *reply)
{
	struct redis_reply value = reply->type == REDIS_ARRAY && reply->n == 2 ? redis_element(reply, 1)
	    : (struct redis_reply){0};
	const char *normal = value.type == REDIS_STRING && value.str != NULL ? strstr(value.str, "normal ") : NULL;

	w->undeliverable.limit = normal == NULL ? 0 : strtoll(normal + strlen("normal "), NULL, 10);
}

static void keep_arrived(struct worker *w, const char *raw, size_t len, int64_t now_ms)
{
	struct undeliverable *u = &w->undeliverable;
	char *copy = alloc_zero(1, len + 1);

	memcpy(copy, raw, len);
	u->read = alloc_resize(u->read, u->nread + 1, sizeof(*u->read));
	u->read[u->nread++] = (struct adopted){ copy, len };
	u->at--;
	look_at_next(w, now_ms);
}

static void end_tray(struct worker *w, int64_t now_ms)
{
	int tray = w->undeliverable.tray;

	adopt_tray(w, tray, w->undeliverable.read, w->undeliverable.nread);
	forget_read(&w->undeliverable);
	if (tray + 1 < QUEUE_TRAYS)
		begin_tray(w, tray + 1, now_ms);
}

static void remember_looked(struct undeliverable *u, const struct queue_looked *l)
{
	buffer_clear(&u->head);
	buffer_clear(&u->tail);
	buffer_append(&u->head, l->head.str, l->head.len);
	if (l->tail.len > 0)
		buffer_append(&u->tail, l->tail.str, l->tail.len);
	u->size = l->size;
}

/* ---- the escape ---- */

/* m has the bytes that are known. The secrets were read when this connection was opened. */
static void parse_known(struct worker *w, struct message *m)
{
	struct undeliverable *u = &w->undeliverable;

	message_parse(m, &w->env->keys.lines, u->head.data, u->head.len);
	m->raw_len = u->size;
}

static struct queue_entry entry_of(const struct undeliverable *u)
{
	return (struct queue_entry){ .raw = u->head.data, .len = u->size, .at = u->at,
	    .tail = u->tail.len > 0 ? u->tail.data : NULL };
}

static void describe_reason(const struct worker *w, const struct message *m, char *out, size_t size)
{
	const struct undeliverable *u = &w->undeliverable;
	long long len = (long long)(m->raw_len - m->wrapper_len), max = (long long)w->env->conf->message_max,
	    limit = (long long)u->limit;

	if (u->too_large && m->doubtful)
		snprintf(out, size, "%lld bytes: " MESSAGE_UNKNOWN_SEAL_WHY, len);
	else if (u->too_large)
		snprintf(out, size, "%lld bytes; message_max is %lld", len, max);
	else if (exceeds_limit(w))
		snprintf(out, size, "%lld bytes; client-output-buffer-limit of Redis is %lld", len, limit);
	else if (u->suspect.times == 1)
		snprintf(out, size, "the server closed the connection while it sent only this message of %lld bytes, "
		    "as before with one of %zu bytes", len, u->proved.size);
	else
		snprintf(out, size,
		    "the server closed the connection %d times while it sent only this message of %lld bytes",
		    u->suspect.times, len);
}

/* Redis computes the SHA1, which the record needs. */
static void ask_digest(struct worker *w, int64_t now_ms)
{
	const struct queue_entry e = entry_of(&w->undeliverable);
	char *no_lease = queue_lease_key(&w->env->keys, NULL);
	struct message m;

	parse_known(w, &m);
	queue_digest(&w->session.redis, no_lease, list_of(w), &e,
	    (const size_t[]){ m.wrapper_len, m.wrapper_len + m.header_len }, 2);
	expect_step(w, STEP_DIGEST, now_ms);
	free(no_lease);
}

/* A message that is too long and whose wrapper cannot be verified keeps it, as in too_large.c. */
static const char *class_of(const struct undeliverable *u, const struct message *m)
{
	return !u->too_large ? "Undeliverable" : m->doubtful ? MESSAGE_UNKNOWN_SEAL : "TooLarge";
}

static void send_escape(struct worker *w, struct message *m, int64_t now_ms)
{
	const struct queue_entry e = entry_of(&w->undeliverable);
	const struct queue_keys *keys = &w->env->keys;
	struct queue_note note;
	const struct record record = env_record(w->env, w->session.incarnation, m, class_of(&w->undeliverable, m),
	    w->undeliverable.why);

	w->undeliverable.class = record.error_class;
	describe_reason(w, m, w->undeliverable.why, sizeof(w->undeliverable.why));
	strlcpy(w->undeliverable.id, m->id, sizeof(w->undeliverable.id));
	if (keys->shared)
		queue_note_of(&note, m, NULL);
	queue_escape(&w->session.redis, &(struct queue_move){ QUEUE_FROM_TRAY(&w->session.owner, w->undeliverable.tray),
	    .entry = &e, .message = m,
	    .note = keys->shared ? &note : NULL, .record = w->env->conf->dead_letter.enabled ? &record : NULL });
	expect_step(w, STEP_ESCAPE, now_ms);
}

static void digest_answer(struct worker *w, const struct redis_reply *reply, int64_t now_ms)
{
	struct redis_reply of_message = redis_element(reply, 0), of_payload = redis_element(reply, 1);
	struct message m;

	if (of_message.len != ENCODE_SHA1_SIZE - 1 || of_payload.len != ENCODE_SHA1_SIZE - 1) {
		look_at_next(w, now_ms);	/* it is not there any more: read again */
		return;
	}
	parse_known(w, &m);
	strlcpy(m.sha1, of_message.str, sizeof(m.sha1));
	if (m.id[0] == '\0')
		snprintf(m.id, sizeof(m.id), "sha1:%s", of_payload.str);
	send_escape(w, &m, now_ms);
}

static void take_escaped(struct worker *w, int64_t answer)
{
	struct undeliverable *u = &w->undeliverable;

	log_info("message_escaped", log_str("id", u->id), log_str("class", u->class), log_str("error", u->why));
	queue_owner_count_moved(&w->session.owner, u->tray);
	if (answer == QUEUE_MOVED_WITHOUT_RECORD)
		mover_record_failed();
	env_count(w->env, COUNT_FETCHED, 1);
	env_count(w->env, COUNT_ESCAPED, 1);
	atomic_fetch_add(&w->env->board->workers.done, 1);
	if (u->too_large) {
		env_count(w->env, strcmp(u->class, MESSAGE_UNKNOWN_SEAL) == 0 ? COUNT_UNKNOWN_SEAL : COUNT_TOO_LARGE,
		    1);
		return;
	}
	classes_count(&w->env->board->workers.classes, u->class, 1);
	if (u->proved.size == 0 || u->size < u->proved.size || !is_known_server(w, &u->proved.server)) {
		u->proved.size = u->size;
		u->proved.server = w->session.server;
	}
	u->suspect.times = 0;
}

/* ---- answers ---- */

static bool is_too_large(const struct worker *w)
{
	size_t most = (size_t)w->env->conf->message_max;

	return w->undeliverable.size > most +
	    (message_may_be_wrapped(w->undeliverable.head.data, w->undeliverable.head.len) ? MESSAGE_LINE_MAX : 0);
}

static void look_answer(struct worker *w, const struct redis_reply *reply, int64_t now_ms)
{
	struct undeliverable *u = &w->undeliverable;
	struct queue_looked l;

	if (queue_look_count(reply) == 0) {
		end_tray(w, now_ms);
		return;
	}
	queue_looked(reply, 0, &l);
	if (l.size == l.head.len) {
		keep_arrived(w, l.head.str, l.head.len, now_ms);
		return;
	}
	remember_looked(u, &l);
	u->too_large = is_too_large(w);
	if (u->too_large || is_proved_undeliverable(w)) {
		ask_digest(w, now_ms);
		return;
	}
	queue_list(&w->session.redis, list_of(w), u->at, u->at);
	u->requested = true;
	expect_step(w, STEP_WHOLE, now_ms);
}

static void whole_answer(struct worker *w, const struct redis_reply *reply, int64_t now_ms)
{
	struct redis_reply raw;

	w->undeliverable.requested = false;
	if (reply->n != 1) {
		look_at_next(w, now_ms);
		return;
	}
	raw = redis_element(reply, 0);
	if (is_suspect(w))
		w->undeliverable.suspect.times = 0;		/* it can be delivered */
	keep_arrived(w, raw.str, raw.len, now_ms);
}

void undeliverable_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	int step = of.item;
	bool number = step == STEP_ESCAPE;

	if (step == STEP_LIMIT) {
		limit_answer(w, reply);
	} else if (number ? reply->type != REDIS_INTEGER
	    : !redis_is_strings(reply) || (step == STEP_LOOK && queue_look_count(reply) == SIZE_MAX)) {
		session_drop(w, reply, now_ms);
	} else if (step == STEP_LOOK) {
		look_answer(w, reply, now_ms);
	} else if (step == STEP_WHOLE) {
		whole_answer(w, reply, now_ms);
	} else if (step == STEP_DIGEST) {
		digest_answer(w, reply, now_ms);
	} else {
		if (reply->integer > 0)
			take_escaped(w, reply->integer);
		look_at_next(w, now_ms);	/* at the same index, the next one lies now, or it is read again */
	}
}
