#ifndef ADMIN_CLI_ADMIN_H
#define ADMIN_CLI_ADMIN_H

#include "admin/cli/options.h"
#include "admin/cli/output.h"

#include "common/conf/conf.h"
#include "common/queue/queue.h"
#include "common/redis/redis.h"

/*
 * struct admin holds the state of a running command: its options, its connection to Redis, and the queue that its
 * operand names. A command returns 0; or -1 after admin_fail(), with the exit status in `status`.
 */
/* for one reply of Redis, including the network: nothing is lost if a look ends before it */
#define ADMIN_TIMEOUT_MS REDIS_TIMEOUT_MS
#define ADMIN_WRITE_TIMEOUT_MS 60000		/* the same, of a command that changes something */

#define COMPLAINT_SIZE 512

struct command_table;

struct admin {
	struct options options;
	/* options.conf_path points into it, unless it is that of the option, or none; empty: only the option counts */
	struct conf_choice choice;
	struct output output;
	const struct command_table *commands;	/* the table of all commands */
	char **operands;		/* after the words of the command; views */
	size_t noperands;
	int status;			/* sysexits(3) */
	bool answer_lost;		/* Redis got a request and did not answer it: it may have taken effect */
	/* COMPLAINT_SIZE bytes for the message of admin_fail(); NULL: admin_fail() prints it on standard error */
	char *complaint;

	/* no warnings of the options: the web console, for which it runs, printed them when it started */
	bool served;

	struct conf *conf;
	/* the configuration has errors: the path of the control socket is all that may be used of it */
	bool flawed;
	struct conf_report flaws;	/* the same; empty: none, or they were printed */
	struct redis_target target;
	struct redis redis;
	int64_t wait_ms;		/* for an opening, and for each reply; 0: the defaults */
	bool lpush_only;		/* the command sends nothing else, so the opening may do without scripts */
	bool writes;			/* the command changes something: ADMIN_WRITE_TIMEOUT_MS applies */
	int64_t extra_ms;		/* added to the timeout of a reply while a large message is under way */

	/* of the queue that the first operand names; empty if the command takes no queue */
	struct queue_keys keys;
	const struct conf_queue *queue;	/* NULL: only the registry knows the queue */

	bool status_asked;		/* true: control.c has requested the status of the supervisor of this host */
	struct json_t *supervisor;	/* the status that it sent; NULL: it did not answer */
};

/*
 * Requirements of a command. admin_prepare() meets them before the command starts; each one includes those before it.
 * NEED_CONTROL is the path of the control socket: such a command works although the configuration has errors, which are
 * warnings then. NEED_SOCKET is the same for a command to which the supervisor answers with the errors: it prints them
 * only in a dry run, which asks no supervisor, and if none answers. NEED_INGRESS is NEED_QUEUE for a command that may
 * send LPUSH alone: then a Redis user without any other right will do.
 */
enum admin_need { NEED_NOTHING, NEED_SOCKET, NEED_CONTROL, NEED_CONF, NEED_REDIS, NEED_QUEUE, NEED_INGRESS };
int admin_prepare(struct admin *a, enum admin_need need);
/* The steps of admin_prepare(), for commands that need them in another order. */
void admin_choose_conf(struct admin *a);	/* after the options were read */
/* Of a command that failed, unless -c names the file: says which configuration was read, and why that one. */
void admin_note_conf(const struct admin *a);
void admin_say_flaws(struct admin *a);		/* prints a->flaws, as warnings, once */
const char *admin_conf_path(const struct admin *a);	/* NULL: no file, the defaults apply */
int admin_load(struct admin *a);
unsigned admin_load_flags(const struct admin *a);	/* for conf_load() */
/* also checks user and programs of this queue's handler */
int admin_load_to_run(struct admin *a, const char *queue);
void admin_close(struct admin *a);

/* The user who logged in, also behind sudo; NULL: not known. Valid until the next call of getpwuid(3) or getlogin(3) */
const char *admin_user(void);

/* The operator who gives an order, as a line of text: "ann@web1"; of the console "ann@web1 (console)". A new string of
 * at most max_columns */
char *admin_name(const struct admin *a, size_t max_columns);

/* Prints one line on standard error and sets the exit status. Returns -1. */
int admin_fail(struct admin *a, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Prints a notice, one line, on standard error. It does not change the exit status. */
void admin_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Waits for the next reply of Redis, which may be an error. -1: the connection was lost or Redis was silent for too
 * long; an error was printed. */
int admin_wait(struct admin *a, struct redis_reply *reply);
/* Waits for the next reply of Redis. -1: it timed out, or is an error; an error that names the key (NULL: none) was
 * printed. */
int admin_reply(struct admin *a, struct redis_reply *reply, const char *key);
int admin_reply_of(struct admin *a, struct redis_reply *reply, char *key);	/* the same; frees the key */
/* Prints the meaning of an error reply. Returns -1. */
int admin_refused(struct admin *a, const struct redis_reply *reply, const char *key);
/* As admin_reply(), for a reply that is a count, or -1. */
#define ADMIN_COUNT_MAX (INT64_C(1) << 48)	/* no server holds more; sums of them do not overflow */
int admin_integer(struct admin *a, int64_t *value, const char *key);
/* A member of a document that any program may have written. -1: missing, or not a count. */
int64_t admin_count_in(const struct json_t *object, const char *key);
/* call it before wrapping: learns the secrets, and creates the first one. -1: failed; the reason was printed */
int admin_seals(struct admin *a);
/* The server's clock: ms since 1970. */
int admin_server_time(struct admin *a, int64_t *ms);
/* Reads --since (text) of a command that shows figures of the past, and the server's clock. A notice says if Redis
 * keeps none of so long ago. */
int admin_since(struct admin *a, const char *text, int64_t *server_ms, int64_t *since_ms);
/* On a terminal: tables show times as ages, by the server's clock. */
int admin_show_ages(struct admin *a);

/* The lists that an operator can name. */
enum admin_list { LIST_INGRESS, LIST_TRANSIT, LIST_ESCAPE, LIST_DELAYED };
#define LIST_BIT(list) (1u << (list))
const char *admin_list_name(enum admin_list list);
/* Parses the operand TYPE; allowed: a set of LIST_BITs. */
int admin_list_parse(struct admin *a, const char *word, unsigned allowed, enum admin_list *list);

#endif
