/*
 * The classes of Redis errors: the only table of error codes in the program. A reply begins with its code, but inside a
 * script the code of the inner error may stand further on ("ERR Error running script ...: WRONGTYPE ..."), and Redis
 * 7.0 and 7.2 report a missing permission inside a script without any code. So a code counts wherever it stands as a
 * word. Permissions come first in the table: when a text names two codes, an operator has to act on the permission
 * anyway. Only the text of an unknown command comes before them, since it quotes arguments, which may be any words.
 * Hosted services refuse commands in their own words, which come last.
 */
#include <ctype.h>
#include <string.h>

#include "common/redis/redis.h"

#include "common/base/base.h"

#define SERVER 1	/* the server refuses every command like it, whatever its keys and arguments are */
#define RECONNECT 2	/* only a new connection helps: it finds the new master, or loads the scripts */
/* one slot of a Cluster is on its way to another node; the keys of the command are not all on this one */
#define SLOT_MOVES 4

struct known_error {
	const char *code;
	enum redis_error_class class;
	int scope;
};

static const struct known_error known_errors[] = {
	{ "ERR unknown command", REDIS_ERROR_NO_COMMAND, 0 },
	{ "The user executing the script can't", REDIS_ERROR_PERMISSION, 0 },
	{ "ACL failure in script", REDIS_ERROR_PERMISSION, 0 },
	{ "NOPERM", REDIS_ERROR_PERMISSION, 0 },
	{ "NOAUTH", REDIS_ERROR_PERMISSION, SERVER },
	{ "WRONGPASS", REDIS_ERROR_PERMISSION, SERVER },
	/* AUTH, and the server needs none */
	{ "called without any password configured", REDIS_ERROR_PERMISSION, SERVER },
	{ "Client sent AUTH, but no password is set", REDIS_ERROR_PERMISSION, SERVER },	/* the same, Redis 5 */
	{ "invalid password", REDIS_ERROR_PERMISSION, SERVER },				/* Redis 5 */
	{ "WRONGTYPE", REDIS_ERROR_WRONG_TYPE, 0 },
	{ "CROSSSLOT", REDIS_ERROR_CLUSTER, 0 },		/* the keys of one command are in several slots */
	{ "attempted to access keys that do not hash to the same slot", REDIS_ERROR_CLUSTER, 0 },
	{ "SELECT is not allowed in cluster mode", REDIS_ERROR_CLUSTER, SERVER },
	{ "SCHEMA", REDIS_ERROR_SCHEMA, SERVER },		/* common/queue/scripts/shared/layout.lua */
	{ "SECRET", REDIS_ERROR_SECRET, 0 },			/* common/queue/scripts/secret.lua */
	{ "READONLY", REDIS_ERROR_TRANSIENT, SERVER | RECONNECT },
	{ "UNBLOCKED", REDIS_ERROR_TRANSIENT, SERVER | RECONNECT },
	{ "MASTERDOWN", REDIS_ERROR_TRANSIENT, SERVER | RECONNECT },
	{ "NOSCRIPT", REDIS_ERROR_TRANSIENT, SERVER | RECONNECT },
	{ "MOVED", REDIS_ERROR_TRANSIENT, SERVER | RECONNECT },		/* route.c goes to the node that it names */
	{ "LOADING", REDIS_ERROR_TRANSIENT, SERVER },
	{ "MISCONF", REDIS_ERROR_TRANSIENT, SERVER },
	{ "BUSY", REDIS_ERROR_TRANSIENT, SERVER },
	{ "NOREPLICAS", REDIS_ERROR_TRANSIENT, SERVER },
	{ "CLUSTERDOWN", REDIS_ERROR_TRANSIENT, SERVER },
	{ "max number of clients reached", REDIS_ERROR_TRANSIENT, SERVER },
	{ "OOM", REDIS_ERROR_TRANSIENT, 0 },		/* commands that need no memory still work */
	/* one slot of a Cluster moves; half of the keys are there */
	{ "TRYAGAIN", REDIS_ERROR_TRANSIENT, SLOT_MOVES },
	/* one slot of a Cluster moves; the key is there already, or new */
	{ "ASK", REDIS_ERROR_TRANSIENT, SLOT_MOVES },
	{ "DB index is out of range", REDIS_ERROR_NO_COMMAND, 0 },		/* SELECT */
	/* the same, of a key that a script does not declare */
	{ "attempted to access a non local key in a cluster node", REDIS_ERROR_TRANSIENT, SLOT_MOVES },
	{ "unknown command", REDIS_ERROR_NO_COMMAND, 0 },
	{ "unknown subcommand", REDIS_ERROR_NO_COMMAND, 0 },
	{ "Unknown subcommand", REDIS_ERROR_NO_COMMAND, 0 },
	{ "Unknown Redis command called from", REDIS_ERROR_NO_COMMAND, 0 },	/* in a script */
	{ "Unknown command called from", REDIS_ERROR_NO_COMMAND, 0 },		/* the same, Valkey */
	{ "command is not allowed", REDIS_ERROR_NO_COMMAND, 0 },		/* ... from script */
	{ "is not allowed", REDIS_ERROR_NO_COMMAND, 0 },			/* command 'CONFIG' is not allowed */
	{ "is not available", REDIS_ERROR_NO_COMMAND, 0 },			/* Command is not available: 'CLIENT' */
	{ "command is disabled", REDIS_ERROR_NO_COMMAND, 0 },
	{ "command not supported", REDIS_ERROR_NO_COMMAND, 0 },
	{ "unsupported command", REDIS_ERROR_NO_COMMAND, 0 },
};

static bool is_word_at(const char *text, const char *at, size_t len)
{
	return (at == text || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[len]);
}

static bool has_word(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word))
		if (is_word_at(text, at, len))
			return true;
	return false;
}

/* NULL: the text has none of the codes. */
static const struct known_error *find_known_error(const char *text)
{
	for (size_t i = 0; i < nitems(known_errors); i++)
		if (strncmp(text, known_errors[i].code, strlen(known_errors[i].code)) == 0 &&
		    is_word_at(text, text, strlen(known_errors[i].code)))
			return &known_errors[i];
	for (size_t i = 0; i < nitems(known_errors); i++)
		if (has_word(text, known_errors[i].code))
			return &known_errors[i];
	return NULL;
}

static const struct known_error *known_error_of(const struct redis_reply *reply)
{
	return reply->type == REDIS_ERROR ? find_known_error(reply->str) : NULL;
}

enum redis_error_class redis_error_classify(const char *text)
{
	const struct known_error *e = find_known_error(text);

	return e == NULL ? REDIS_ERROR_UNKNOWN : e->class;
}

enum redis_error_class redis_error_class(const struct redis_reply *reply)
{
	return reply->type == REDIS_ERROR ? redis_error_classify(reply->str) : REDIS_ERROR_NONE;
}

bool redis_error_needs_operator(enum redis_error_class class)
{
	return class == REDIS_ERROR_PERMISSION || class == REDIS_ERROR_NO_COMMAND || class == REDIS_ERROR_WRONG_TYPE ||
	    class == REDIS_ERROR_CLUSTER || class == REDIS_ERROR_SCHEMA || class == REDIS_ERROR_SECRET;
}

bool redis_error_is_transient(const struct redis_reply *reply)
{
	return redis_error_class(reply) == REDIS_ERROR_TRANSIENT;
}

bool redis_error_is_of_server(const struct redis_reply *reply)
{
	const struct known_error *e = known_error_of(reply);

	return e != NULL && (e->scope & SERVER) != 0;
}

bool redis_error_needs_reconnect(const struct redis_reply *reply)
{
	const struct known_error *e = known_error_of(reply);

	return e != NULL && (e->scope & RECONNECT) != 0;
}

bool redis_error_slot_moves(const char *text)
{
	const struct known_error *e = find_known_error(text);

	return e != NULL && (e->scope & SLOT_MOVES) != 0;
}

bool redis_error_is(const struct redis_reply *reply, const char *code)
{
	size_t n = strlen(code);

	return reply->type == REDIS_ERROR && strncmp(reply->str, code, n) == 0 &&
	    (reply->str[n] == ' ' || reply->str[n] == '\0');
}
