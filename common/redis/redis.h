#ifndef COMMON_REDIS_REDIS_H
#define COMMON_REDIS_REDIS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/redis/output.h"

struct pollfd;

/*
 * One connection, never blocking: commands are appended, sent and answered in order while the
 * caller polls. Opening, AUTH, SELECT, CLIENT SETNAME, CLIENT ID and ROLE are part of it, and what
 * `greet` appends (queue_greets() loads the scripts, so NOSCRIPT needs a new connection). After any I/O error the
 * connection is closed and its pending answers are lost: the caller opens it again.
 */
#define REDIS_TIMEOUT_MS 5000	/* for an opening, and for an answer beyond a command's own block time; it begins anew when the peer shows a
				 * sign of life (progress): a large message may take its time over a slow link */

enum redis_state { REDIS_CLOSED, REDIS_OPENING, REDIS_READY };

/* What an error reply means for what to do next. common/redis/error.c has the table of error codes. */
enum redis_error_class {
	REDIS_ERROR_NONE,	/* no error, or the caller itself ended the wait */
	REDIS_ERROR_TRANSIENT,	/* it passes without an operator: no connection, no reply in time, OOM, LOADING, READONLY, NOSCRIPT ... */
	REDIS_ERROR_PERMISSION,	/* NOAUTH WRONGPASS NOPERM: an operator must change the user, its password or its permissions */
	REDIS_ERROR_WRONG_TYPE,	/* WRONGTYPE: an operator must rename or delete a key */
	REDIS_ERROR_UNKNOWN	/* any other code; it may pass */
};

struct redis_reply;

struct redis {
	enum redis_state state;
	struct redisContext *context;
	void *last;			/* the answer redis_take() gave last; freed by the next one */
	int pending;			/* answers the caller still has to take */
	int64_t received;		/* bytes of the answer that is not whole yet, and of those not taken */
	struct redis_output output;
	uint64_t input;			/* bytes received on this connection */
	/*
	 * Signs of life until the last look at the deadline: bytes received, and bytes of a command larger than the kernel's
	 * buffer for which the peer made room. Bytes that only went into that buffer prove nothing: a worker renews its lease
	 * on and on, also to a peer that stands still.
	 */
	uint64_t progress;
	uint8_t greetings[8];		/* what the opening's own answers are to, in order */
	int greetings_sent, greetings_taken;	/* with those of greet; taken <= sent */
	int64_t deadline_ms;		/* monotonic; a sign of life is due by then. 0: nothing was asked */
	int64_t last_due_ms;		/* when the answer to what was asked last is due, if those before it have come */
	int64_t client_id;		/* 0: not known */
	int64_t connection;		/* counts successful openings; 0: none yet */
	enum redis_error_class error_class;	/* of the last closing */
	char error[256];		/* why it was closed last, or what a waiting call was answered */
	const struct redis_target *target;
	const char *name;		/* for CLIENT SETNAME; NULL: none */
	void (*greet)(struct redis *r);	/* appends more to the opening; NULL: nothing */
	const char *(*greeted)(const struct redis_reply *last);	/* takes the answer to greet's last command; why it will not do, or NULL */
	const sigset_t *poll_mask;	/* signals while redis_wait() polls; NULL: as they are */
};

/* Where a server is. Parsed from conf.redis by redis_target_parse(). */
struct redis_target {
	char *unix_path;	/* NULL: TCP */
	char *host;
	int port;
	int db;
	char *user;		/* NULL: none */
	char *password;		/* NULL: none */
	char *shown;		/* url without secrets, for messages */
};

/* url: redis://[user[:password]@]host[:port][/db], unix:///path[?db=N]. Returns -1 and why in
 * error (rediss:// says what to do instead). */
int redis_target_parse(struct redis_target *t, const char *url, const char *user, const char *password,
    char *error, size_t error_size);
void redis_target_free(struct redis_target *t);

struct redis_reply {		/* a view, valid until the next redis_take() or redis_close() */
	enum redis_type { REDIS_NIL, REDIS_INTEGER, REDIS_STRING, REDIS_STATUS, REDIS_ERROR, REDIS_ARRAY } type;
	int64_t integer;
	const char *str;	/* NUL-terminated, may hold NULs */
	size_t len;
	size_t n;		/* ARRAY: elements, read with redis_element() */
	const void *opaque;
};

void redis_init(struct redis *r, const struct redis_target *target, const char *name);
int redis_open(struct redis *r, int64_t now_ms);	/* starts; -1: failed at once, error set */
void redis_close(struct redis *r, const char *why);	/* why NULL: error is kept */
/* The same, with the server's name before why. Returns -1. */
int redis_fail(struct redis *r, const char *why, enum redis_error_class class);
/* The answer to what was appended is due by then; if others are still to come, their deadline stays. */
void redis_expect_by(struct redis *r, int64_t at_ms);

/* Appends one command. lens NULL: NUL-terminated arguments. CLOSED: it is lost, as what was sent before is; the next wait says so. */
void redis_append(struct redis *r, size_t argc, const char *const *argv, const size_t *lens);
/* format: words separated by blanks; %s a string, %b pointer and size_t, %d an int64_t: each a whole argument. */
void redis_appendf(struct redis *r, const char *format, ...);

/* A command that is sent often. hiredis needs longer to format a command than to send it, so this one is formatted once. */
struct redis_command {
	char *bytes;		/* owned; NULL: not formatted yet */
	size_t len;
};
void redis_format(struct redis_command *c, const char *format, ...);	/* format: as redis_appendf(). Replaces what c holds */
void redis_append_command(struct redis *r, const struct redis_command *c, int times);
void redis_command_free(struct redis_command *c);	/* c is as new then */

/* What to poll for; false: nothing (closed). */
bool redis_pollfd(const struct redis *r, struct pollfd *p);
/* Sends what is possible without waiting. -1: closed, error set. */
int redis_flush(struct redis *r);
/* Sends and receives; sees to the deadline. The same. */
int redis_pump(struct redis *r, int64_t now_ms);
/* The next answer of the caller's commands. 1: filled, 0: none yet, -1: closed. */
int redis_take(struct redis *r, struct redis_reply *reply);
/* The length of the string that is arriving, as soon as the server has announced it; -1: none is, or not known yet. Only
 * after redis_take() returned 0. An element of an array counts, too. begin: its first bytes, as many as have arrived; a view
 * until the next redis_take() or redis_close(). Both are set only if the length is known. */
int64_t redis_arriving(const struct redis *r, const char **begin, size_t *arrived);
/* The answer given last outlives the next ones, until redis_let_go(). */
void *redis_keep(struct redis *r);
void redis_let_go(void *kept);
struct redis_reply redis_element(const struct redis_reply *array, size_t i);
bool redis_is_strings(const struct redis_reply *reply);		/* an ARRAY, of nothing but STRINGs */

/*
 * The same for those who may wait (sweeper, CLI). `interrupted` (may be NULL) is asked after each
 * signal; true ends the wait with -1 and the connection stays usable only if nothing is pending.
 */
int redis_connect(struct redis *r, int64_t timeout_ms, bool (*interrupted)(void));
int redis_wait(struct redis *r, struct redis_reply *reply, int64_t timeout_ms, bool (*interrupted)(void));
/*
 * Waits for the beginning of the next answer. Returns the length of the string that it is, once at least `wanted` of its bytes have arrived, and
 * not all; begin: these, a view until redis_close(), which must be the next call. -1: the answer is not longer than that, or is no string, or as
 * redis_wait().
 */
int64_t redis_wait_begin(struct redis *r, size_t wanted, const char **begin, int64_t timeout_ms, bool (*interrupted)(void));

enum redis_error_class redis_error_classify(const char *text);		/* of an error's text */
enum redis_error_class redis_error_class(const struct redis_reply *reply);
bool redis_error_needs_operator(enum redis_error_class class);
bool redis_error_is_transient(const struct redis_reply *reply);	/* the keys and arguments of the command are not at fault */
bool redis_error_is_of_server(const struct redis_reply *reply);	/* the server refuses every such command, whatever its keys are */
bool redis_error_needs_reconnect(const struct redis_reply *reply);	/* only a new connection helps */
bool redis_error_is(const struct redis_reply *reply, const char *code);	/* the reply begins with this code: "OOM", "NOSCRIPT", ... */

/* The rest of what this folder offers. */
#include "common/redis/info.h"

#endif
