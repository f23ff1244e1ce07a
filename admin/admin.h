#ifndef ADMIN_ADMIN_H
#define ADMIN_ADMIN_H

#include "admin/options.h"
#include "admin/output.h"

#include "common/conf.h"
#include "common/queue.h"
#include "common/queue_admin.h"
#include "common/redis.h"

/*
 * One run of quredis: what was asked, where Redis is, which queue is meant. Commands return 0, or
 * -1 after admin_fail(); the exit status is status.
 */
#define ADMIN_TIMEOUT_MS 60000		/* for one answer of Redis, with the way there and back */

#define COMPLAINT_SIZE 512

struct admin {
	struct options options;
	struct output output;
	char **operands;		/* behind the command's own words */
	size_t noperands;
	int status;			/* sysexits(3) */
	char *complaint;		/* COMPLAINT_SIZE bytes that take what admin_fail() says; NULL: standard error */

	bool served;			/* for the web console: what is said once was said at its start */

	struct conf *conf;
	struct redis_target target;
	struct redis redis;
	int64_t extra_ms;		/* to wait longer: what is under way is large */

	struct queue_keys keys;		/* of the queue named first, if the command names one */
	const struct conf_queue *queue;	/* NULL: known from the registry only */

	bool status_asked;		/* of the supervisor here (admin/control.c) */
	struct json_t *supervisor;	/* its status; NULL: none answered */
};

/* What a command needs before it starts; each includes those before it. */
enum admin_need { NEED_NOTHING, NEED_CONF, NEED_REDIS, NEED_QUEUE };
int admin_prepare(struct admin *a, enum admin_need need);
/* The steps of it, for who needs them in another way. */
const char *admin_conf_path(const struct admin *a);	/* NULL: no file, the defaults hold */
int admin_load(struct admin *a, unsigned flags);	/* flags of conf_load() */
int admin_load_to_run(struct admin *a, const char *queue);	/* with what only its handler needs */
int admin_connect(struct admin *a);
/* A queue of the configuration or the registry. -1: there is none, or it cannot be read: said so. */
int admin_find_queue(struct admin *a, const char *name, struct queue_keys *keys);
void admin_close(struct admin *a);

/* One line on standard error, and the exit status. Returns -1. */
int admin_fail(struct admin *a, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* One line on standard error: no failure. */
void admin_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The next answer of Redis. -1: it is away or refused; said so, naming key (NULL: none). */
int admin_reply(struct admin *a, struct redis_reply *reply, const char *key);
/* Says what an error answer means. Returns -1. */
int admin_refused(struct admin *a, const struct redis_reply *reply, const char *key);
/* The same for answers that are integers: counts, and -1. */
#define ADMIN_COUNT_MAX (INT64_C(1) << 48)	/* no server holds more; sums of them do not overflow */
int admin_integer(struct admin *a, int64_t *value, const char *key);
int admin_seals(struct admin *a);	/* call it before a message is wrapped: learns the secrets, and creates the first one. -1: failed, the reason was printed */
/* The server's clock: ms since 1970. */
int admin_server_time(struct admin *a, int64_t *ms);

/* Names in the registry: new strings in a new array. */
int admin_registered(struct admin *a, char ***names, size_t *n);
void admin_names_free(char **names, size_t n);

/* Lists an operator can name. */
enum admin_list { LIST_INGRESS, LIST_TRANSIT, LIST_ESCAPE, LIST_DELAYED };
#define LIST_BIT(list) (1u << (list))
/* Reads TYPE; allowed is a set of LIST_BITs. */
int admin_list_parse(struct admin *a, const char *word, unsigned allowed, enum admin_list *list);

#endif
