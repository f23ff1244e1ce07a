#ifndef COMMON_REDIS_REDIS_H
#define COMMON_REDIS_REDIS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/redis/output.h"
#include "common/redis/resolve.h"
#include "common/redis/route.h"
#include "common/redis/tls_context.h"

struct pollfd;

/*
 * A connection to Redis that never blocks: the caller appends commands, and polls while the connection sends them and
 * receives their answers, in order. The opening consists of the connect, the TLS handshake if the target has TLS, AUTH,
 * SELECT, CLIENT SETNAME, CLIENT ID, ROLE, and the commands that `greet` appends (queue_greets() loads the scripts, so
 * NOSCRIPT needs a new connection). Hosted services may refuse CLIENT and ROLE; instead of ROLE it then sends INFO
 * replication. After an I/O error the connection is closed and its pending answers are lost: the caller opens it again.
 */
/* for the answer of a Sentinel: the next one may answer sooner than one that does not */
#define REDIS_SENTINEL_TIMEOUT_MS 1000
/* for an opening, and for an answer beyond a command's own block time. It begins anew when the peer shows a sign of
 * life (progress), because a large message takes long on a slow link */
#define REDIS_TIMEOUT_MS 5000

/*
 * How a process that has lost the server learns that it is back. It costs little to try a server of this host, and
 * nothing to look whether another process of this supervisor has reached the server (struct board_workers).
 */
#define REDIS_LOCAL_BACKOFF_MS 2000	/* the longest back-off if all addresses of the target are of this host */
#define REDIS_NEWS_MS 1000		/* between two looks, and between two attempts that follow one */

#define REDIS_WHY_SIZE 448	/* two addresses, and what is wrong */

enum redis_state { REDIS_CLOSED, REDIS_OPENING, REDIS_READY };

/* The meaning of an error reply for what to do next. common/redis/error.c has the table of error codes. */
enum redis_error_class {
	REDIS_ERROR_NONE,	/* no error, or the caller itself ended the wait */
	REDIS_ERROR_LOST,	/* no server answered: no connection, no reply in time, or another protocol */
	/* the server refuses, and it passes without an operator: OOM, LOADING, READONLY, MISCONF, NOSCRIPT ... */
	REDIS_ERROR_TRANSIENT,
	/* NOAUTH WRONGPASS NOPERM: an operator must change the user, its password or its permissions */
	REDIS_ERROR_PERMISSION,
	/* the server has no such command, has renamed it, or refuses it to all users, as hosted services do */
	REDIS_ERROR_NO_COMMAND,
	REDIS_ERROR_WRONG_TYPE,	/* WRONGTYPE: an operator must rename or delete a key */
	/* CROSSSLOT, SELECT in a Redis Cluster: an operator must set redis.prefix to a hash tag, or use database 0 */
	REDIS_ERROR_CLUSTER,
	/* SECRET, of our own script: the secret of wrappers is lost, and an operator must restore or replace it */
	REDIS_ERROR_SECRET,
	/* SCHEMA, of our own script: another version of quredis wrote the keys, and an operator must run that one
	 * here */
	REDIS_ERROR_SCHEMA,
	REDIS_ERROR_UNKNOWN	/* any other code; it may pass */
};

struct redis_reply;

struct redis {
	enum redis_state state;
	struct redisContext *context;	/* NULL: CLOSED, or OPENING while the host name is being resolved */
	struct lookup *lookup;		/* OPENING: of the host name, if it has one (resolve.h) */
	char numeric[64];		/* where that name leads */
	struct tls *tls;		/* NULL: none */
	void *last;			/* the answer that redis_take() returned last; the next call frees it */
	int pending;			/* answers that the caller still has to take */
	int64_t received;		/* bytes of the answer that is not complete yet, and of those not taken */
	struct redis_output output;
	uint64_t input;			/* bytes that came out of the socket */
	/*
	 * Signs of life until the last look at the deadline: bytes received, and bytes of a command larger than the
	 * kernel's buffer for which the peer made room. Bytes that only went into that buffer prove nothing: a worker
	 * renews its lease again and again, also if the peer hangs.
	 */
	uint64_t progress;
	uint8_t greetings[8];		/* the commands of the opening, in order */
	int greetings_sent, greetings_taken;	/* with those of greet; taken <= sent */
	bool is_replica;		/* by the answer to ROLE */
	/* places: of greet's last command; of INFO replication, sent after a refused ROLE. 0: none */
	int greeting_last, greeting_role;
	/* monotonic; a sign of life, or the address of the host, is due by then. 0: no answer is pending */
	int64_t deadline_ms;
	int64_t open_by_ms;		/* monotonic; an opening, or before it the lookup of the host, ends by then */
	int64_t recall_ms;		/* monotonic; from then on an address of an earlier lookup will do */
	int64_t last_due_ms;		/* when the answer to the last command is due, if those before it have come */
	int64_t client_id;		/* 0: not known */
	int64_t connection;		/* counts successful openings; 0: none yet */
	enum redis_error_class error_class;	/* of the last closing */
	char error[REDIS_WHY_SIZE];	/* why it was closed last */
	/* the last closing: the other end closed or reset the connection, and gave no reason */
	bool closed_by_peer;
	/* where in error the reason begins, behind the name of the server; see redis_why() */
	size_t error_why;
	const struct redis_target *target;
	struct redis_route route;	/* where the next connection goes */
	bool finds_master;		/* the connection only asks a Sentinel for the master: redis_find_master() */
	bool stays;			/* the connection to the Sentinel stays open: redis_connect_sentinel() */
	/* the caller has other work: an opening fails if its host name takes longer to resolve than an answer may
	 * take */
	bool brief;
	const char *name;		/* for CLIENT SETNAME; NULL: none */
	void (*greet)(struct redis *r);	/* appends more commands to the opening; NULL: none */
	/* Takes the answer to greet's last command; returns why the server is refused, or NULL. It may append one more:
	 * then it is called again */
	const char *(*greeted)(struct redis *r, const struct redis_reply *last);
	const void *greet_arg;		/* for greet and greeted; of their owner */
	/* what the owner of greet remembers of a question of several requests: one allocation; closing frees it */
	void *asking;
	const sigset_t *poll_mask;	/* signals while redis_wait() polls; NULL: unchanged */
};

/*
 * The server, as a configuration describes it. Strings belong to the caller. url:
 * redis://[user[:password]@]host[:port][,host[:port]...][/db], the same with rediss:// for TLS, or unix:///path[?db=N].
 * User and password are percent-encoded there, as in any URL; the fields below are not.
 */
struct redis_options {
	const char *url;
	const char *user, *password;	/* replace those of the URL; NULL: they do not */
	/* HOST[:PORT], NULL at the end; the URL then names no host. NULL: no Sentinels */
	const char *const *sentinels;
	const char *master;		/* under which name the Sentinels know the master */
	const char *sentinel_user, *sentinel_password;	/* NULL: none */
	bool sentinel_tls;
};

#define REDIS_PORT 6379			/* of a server whose address names none */
#define REDIS_ADDRESSES_MAX 64		/* of one target */

struct redis_address {
	char *host;
	int port;
};

struct redis_login {
	char *user, *password;		/* NULL: none */
};

/* Where a server is; constant while connections use it. */
struct redis_target {
	char *unix_path;		/* NULL: TCP */
	struct redis_address *addresses;	/* TCP: at least one; of Redis, or of Sentinels if there is a master */
	size_t naddresses;
	char *master;			/* the Sentinels' name of the master; NULL: addresses are those of Redis */
	bool tls, sentinel_tls;		/* connections to Redis, and to Sentinels, use TLS */
	/* of redis_target_use(). Where TLS is used and this is NULL, an opening fails */
	const struct tls_context *tls_context;
	int db;
	struct redis_login login, sentinel_login;
	bool no_host;			/* the URL named none */
	char *shown;			/* url without secrets, for messages */
	/* the names of all keys of quredis begin with it there; NULL or "": with nothing */
	char *prefix;
};

/* Returns -1, and the reason in error. */
int redis_target_parse(struct redis_target *t, const struct redis_options *o, char *error, size_t error_size);
/* A new string: the user or the password of an URL, with its percent signs decoded. NULL: REDIS_URL_BAD_LOGIN. */
char *redis_url_decode(const char *text, size_t len);
#define REDIS_URL_BAD_LOGIN \
	"in the user and the password two hexadecimal digits, not 00, must follow each %; write %25 for a percent sign"
/* Replaces the host (NULL: not) and the port (0: not), and drops a unix socket, further addresses and Sentinels. */
void redis_target_set_address(struct redis_target *t, const char *host, int port);
bool redis_target_is_remote(const struct redis_target *t);	/* one of its addresses is not of this host alone */
/* A number for this target and a server with this run_id, equal in all processes with this target. "": for the target
 * alone. */
uint64_t redis_target_mark(const struct redis_target *t, const char *run_id);
void redis_target_free(struct redis_target *t);
/* For TLS. The caller owns the context, and keeps it for as long as it opens connections. */
void redis_target_use(struct redis_target *t, const struct tls_context *context);
/* copies it; NULL: none. The keys of queues have it in their names already */
void redis_target_use_prefix(struct redis_target *t, const char *prefix);
const char *redis_prefix(const struct redis *r);	/* of its target; "": none */

struct redis_reply {		/* a view, valid until the next redis_take() or redis_close() */
	enum redis_type { REDIS_NIL, REDIS_INTEGER, REDIS_STRING, REDIS_STATUS, REDIS_ERROR, REDIS_ARRAY } type;
	int64_t integer;
	const char *str;	/* with a NUL at the end; may contain others */
	size_t len;
	size_t n;		/* ARRAY: how many elements; redis_element() reads them */
	const void *opaque;
};

void redis_init(struct redis *r, const struct redis_target *target, const char *name);
int redis_open(struct redis *r, int64_t now_ms);	/* starts; -1: failed at once, error set */
/*
 * The same to the server that `other` is connected to, whatever a name, a Sentinel or a node would say now. Of the same
 * target; `other` must be READY. It resolves no name.
 */
int redis_open_beside(struct redis *r, const struct redis *other, int64_t now_ms);
/* why NULL: error and its class are kept; else the class is REDIS_ERROR_LOST */
void redis_close(struct redis *r, const char *why);
/* closes it, since the server gave this answer */
void redis_refuse(struct redis *r, const struct redis_reply *reply);
/* The same, with the server's name before why. Returns -1. */
int redis_fail(struct redis *r, const char *why, enum redis_error_class class);
/*
 * The server at the other end of a connection: its address as that of IPv6 (an address of IPv4 is mapped), so that it
 * fits into words of the scoreboard.
 */
struct redis_endpoint {
	uint64_t high, low;
	int port;
};
#define REDIS_ENDPOINT_SIZE 64
/* false: r is closed, or its socket is no TCP socket */
bool redis_endpoint_of(const struct redis *r, struct redis_endpoint *out);
/* "10.0.0.7:6379", "[fe80::1]:6379" */
const char *redis_endpoint_format(const struct redis_endpoint *p, char out[REDIS_ENDPOINT_SIZE]);
/* of the server's certificates. False: no TLS, or it showed none */
bool redis_certificate_expiry(const struct redis *r, struct tls_expiry *out);
const char *redis_why(const struct redis *r);	/* why it was closed last, without the name of the server */
int redis_fail_late(struct redis *r);	/* the same, because an answer, or the opening, took too long */
/* The answer to the command that was appended last is due by then. The deadline of answers that are due before
 * stays. */
void redis_expect_by(struct redis *r, int64_t at_ms);

/* Appends one command. lens NULL: NUL-terminated arguments. CLOSED: the command is lost, as those that were sent
 * before; the next wait returns -1. */
void redis_append(struct redis *r, size_t argc, const char *const *argv, const size_t *lens);
/* format: words separated by blanks. %s a string, %b a pointer and a size_t, %d an int64_t: each is a whole
 * argument. */
void redis_appendf(struct redis *r, const char *format, ...);

/* A command that is sent often. To format a command takes hiredis longer than to send it, so this one is formatted
 * once. */
struct redis_command {
	char *bytes;		/* owned; NULL: not formatted yet */
	size_t len;
};
/* format: as redis_appendf(). Replaces what c holds */
void redis_format(struct redis_command *c, const char *format, ...);
void redis_append_command(struct redis *r, const struct redis_command *c, int times);
void redis_command_free(struct redis_command *c);	/* c can be used again */
/* A connection keeps the memory that its largest batch of commands took, up to 1 MiB; this frees it if all is sent. */
void redis_free_memory(struct redis *r);

/* it waits for the address of its host; the server has not been asked anything yet */
bool redis_resolves(const struct redis *r);
/* Fills in the events to poll for. false: the connection is closed. */
bool redis_pollfd(const struct redis *r, struct pollfd *p);
/* Sends what is possible without waiting. -1: closed, error set. */
int redis_flush(struct redis *r);
/* Sends, receives, and checks the deadline. -1: closed, error set. */
int redis_pump(struct redis *r, int64_t now_ms);
/* The next answer to a command of the caller. 1: filled, 0: none yet, -1: closed. */
int redis_take(struct redis *r, struct redis_reply *reply);
/* The length of the string that is arriving, as soon as the server has announced it; -1: no string is arriving, or its
 * length is not known yet. Only after redis_take() returned 0. An element of an array counts, too. begin: its first
 * bytes, as many as have arrived; a view until the next redis_take() or redis_close(). Both are set only if the length
 * is known. */
int64_t redis_arriving(const struct redis *r, const char **begin, size_t *arrived);
/* Keeps the answer that redis_take() returned last, until redis_let_go(). */
void *redis_keep(struct redis *r);
void redis_let_go(void *kept);
struct redis_reply redis_element(const struct redis_reply *array, size_t i);
/* Reads an array of n integers. -1: the reply has another form */
int redis_integers(const struct redis_reply *reply, int64_t *const fields[], size_t n);
bool redis_is_strings(const struct redis_reply *reply);		/* an ARRAY in which every element is a STRING */

/*
 * The same for callers that may wait: the sweeper and the command line. They call `interrupted` (may be NULL) after
 * each signal; true ends the wait with -1, and the connection is closed.
 */
/* tries each address of the target once */
int redis_connect(struct redis *r, int64_t timeout_ms, bool (*interrupted)(void));
int redis_connect_beside(struct redis *r, const struct redis *other, int64_t timeout_ms, bool (*interrupted)(void));
/* Asks one Sentinel for the master, with a connection r of its own, which is closed then. 0: r->route has the address.
 * -1: error */
int redis_find_master(struct redis *r, int64_t timeout_ms, bool (*interrupted)(void));
/*
 * Connects a new r to this Sentinel of the target, for commands to it. r->route has the address of the master that it
 * names; port 0: it does not know the master's name. -1: error
 */
int redis_connect_sentinel(struct redis *r, size_t sentinel, int64_t timeout_ms, bool (*interrupted)(void));
int redis_wait(struct redis *r, struct redis_reply *reply, int64_t timeout_ms, bool (*interrupted)(void));
/*
 * Waits for the beginning of the next answer. Returns the length of a string, once at least `wanted` of its bytes have
 * arrived, and not all of them. begin: these bytes, a view until redis_close(), which must be the next call. -1: the
 * answer is not longer than that, or is no string, or as redis_wait().
 */
int64_t redis_wait_begin(struct redis *r, size_t wanted, const char **begin, int64_t timeout_ms,
    bool (*interrupted)(void));

/*
 * Redis Cluster. A key with a hash tag ("{...}", not empty, the first one) is in the slot of the tag: so are all keys
 * made of it by adding to its end. Other keys are in the slot of their whole name.
 */
#define REDIS_SLOTS 16384
/* the bytes between the braces; NULL: the key has no tag */
const char *redis_hash_tag(const char *key, size_t *len);
int redis_slot(const char *key);				/* 0..REDIS_SLOTS-1, as CLUSTER KEYSLOT */
/* True: key, other and whatever begins with one of them are in one slot. Without a hash tag that is not so. */
bool redis_same_slot(const char *key, const char *other);

enum redis_error_class redis_error_classify(const char *text);		/* text: of an error reply */
enum redis_error_class redis_error_class(const struct redis_reply *reply);
bool redis_error_needs_operator(enum redis_error_class class);
/* the keys and arguments of the command are not at fault */
bool redis_error_is_transient(const struct redis_reply *reply);
/* the server refuses every such command, whatever its keys are */
bool redis_error_is_of_server(const struct redis_reply *reply);
bool redis_error_needs_reconnect(const struct redis_reply *reply);	/* only a new connection helps */
/* of an error reply: a slot of the Cluster is on its way to another node */
bool redis_error_slot_moves(const char *text);
/* the reply begins with this code: "OOM", "NOSCRIPT", ... */
bool redis_error_is(const struct redis_reply *reply, const char *code);

/* The rest of the public functions of this folder. */
#include "common/redis/command_name.h"
#include "common/redis/info.h"
#include "common/redis/libraries.h"
#include "common/redis/outage.h"

#endif
