#ifndef ADMIN_CLI_ADMIN_H
#define ADMIN_CLI_ADMIN_H

#include "admin/cli/options.h"
#include "admin/cli/output.h"

#include "common/conf/conf.h"
#include "common/queue/queue.h"
#include "common/redis/redis.h"

/*
 * One run of quredis: its options, its connection to Redis, the queue that it names. A command returns 0, or -1 after
 * admin_fail(); the exit status is in `status`.
 */
#define ADMIN_TIMEOUT_MS 60000		/* for one reply of Redis, including the network */

#define COMPLAINT_SIZE 512

struct command_table;

struct admin {
	struct options options;
	struct output output;
	const struct command_table *commands;	/* all there are */
	char **operands;		/* after the words of the command; views */
	size_t noperands;
	int status;			/* sysexits(3) */
	char *complaint;		/* COMPLAINT_SIZE bytes for the message of admin_fail(); NULL: it is printed on standard error */

	bool served;			/* runs for the web console, which printed the warnings of the options when it started */

	struct conf *conf;
	struct redis_target target;
	struct redis redis;
	int64_t extra_ms;		/* added to ADMIN_TIMEOUT_MS while a large message is under way */

	struct queue_keys keys;		/* of the queue named first, if the command names one */
	const struct conf_queue *queue;	/* NULL: known from the registry only */

	bool status_asked;		/* whether the supervisor of this host was asked (control.c) */
	struct json_t *supervisor;	/* the status that it sent; NULL: it did not answer */
};

/* What a command needs before it starts; each includes those before it. */
enum admin_need { NEED_NOTHING, NEED_CONF, NEED_REDIS, NEED_QUEUE };
int admin_prepare(struct admin *a, enum admin_need need);
/* The steps of admin_prepare(), for commands that need them in another order. */
const char *admin_conf_path(const struct admin *a);	/* NULL: no file, the defaults apply */
int admin_load(struct admin *a, unsigned flags);	/* flags of conf_load() */
int admin_load_to_run(struct admin *a, const char *queue);	/* with what only the handler of this queue needs */
int admin_connect(struct admin *a);
/* Finds a queue in the configuration or the registry. -1: there is none, or it cannot be read; an error was printed. */
int admin_find_queue(struct admin *a, const char *name, struct queue_keys *keys);
void admin_close(struct admin *a);

/* Prints one line on standard error and sets the exit status. Returns -1. */
int admin_fail(struct admin *a, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Prints one line on standard error that is not an error. */
void admin_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Waits for the next reply of Redis. -1: it timed out, or is an error; an error that names the key (NULL: none) was printed. */
int admin_reply(struct admin *a, struct redis_reply *reply, const char *key);
/* Prints what an error reply means. Returns -1. */
int admin_refused(struct admin *a, const struct redis_reply *reply, const char *key);
/* The same for replies that are counts, or -1. */
#define ADMIN_COUNT_MAX (INT64_C(1) << 48)	/* no server holds more; sums of them do not overflow */
int admin_integer(struct admin *a, int64_t *value, const char *key);
int admin_seals(struct admin *a);	/* call it before a message is wrapped: learns the secrets, and creates the first one. -1: failed, the reason was printed */
/* The server's clock: ms since 1970. */
int admin_server_time(struct admin *a, int64_t *ms);

/* Reads the names in the registry: new strings in a new array. */
int admin_registered(struct admin *a, char ***names, size_t *n);
void admin_names_free(char **names, size_t n);

/* Lists an operator can name. */
enum admin_list { LIST_INGRESS, LIST_TRANSIT, LIST_ESCAPE, LIST_DELAYED };
#define LIST_BIT(list) (1u << (list))
const char *admin_list_name(enum admin_list list);
/* Reads TYPE; allowed is a set of LIST_BITs. */
int admin_list_parse(struct admin *a, const char *word, unsigned allowed, enum admin_list *list);

#endif
