#ifndef COMMON_REDIS_COMMAND_NAME_H
#define COMMON_REDIS_COMMAND_NAME_H

#include <stddef.h>

/*
 * Every command that quredis sends, by itself or in a script. An error names the command that Redis refused as one of
 * them, since the scoreboard can hold a number but no text. tests/tree/test_commands.py compares the list with the
 * sources.
 */
#define COMMAND_NAMES(X) \
	X(ACL) X(APPEND) X(AUTH) X(BLMOVE) X(BLPOP) X(BRPOPLPUSH) X(CLIENT) X(CONFIG) X(DEL) X(EVALSHA) X(EXISTS) \
	X(GET) X(GETRANGE) X(HDEL) X(HEXISTS) X(HGET) X(HGETALL) X(HINCRBY) X(HKEYS) X(HLEN) X(HMGET) \
	X(HRANDFIELD) X(HSCAN) X(HSET) X(HVALS) X(INFO) X(LINDEX) X(LLEN) X(LMOVE) X(LPOP) X(LPOS) X(LPUSH) \
	X(LRANGE) X(LREM) X(LSET) X(LTRIM) X(MEMORY) X(MGET) X(PEXPIRE) X(PTTL) X(RENAME) X(RENAMENX) \
	X(ROLE) X(RPOPLPUSH) X(RPUSH) X(SCAN) X(SCRIPT) X(SELECT) X(SENTINEL) X(SET) X(STRLEN) X(TIME) \
	X(TYPE) X(UNLINK) X(WAIT) X(WAITAOF) X(XADD) X(XDEL) X(XINFO) X(XLEN) X(XRANGE) X(XREVRANGE) X(ZADD) \
	X(ZCARD) X(ZCOUNT) X(ZRANGE) X(ZREM) X(ZREMRANGEBYRANK) X(ZSCORE)

enum command_name {
	COMMAND_UNNAMED,		/* none, or the error does not name it, as the errors of scripts in Redis 7.0 */
#define X(name) COMMAND_##name,
	COMMAND_NAMES(X)
#undef X
	COMMAND_COUNT
};

const char *command_name_text(enum command_name command);	/* "XADD"; "a command": UNNAMED */
/* The command with this name of len bytes, in any case; of CONFIG|GET it is CONFIG. UNNAMED: quredis does not send
 * it. */
enum command_name command_name_find(const char *name, size_t len);
/* The command that an error text names in quotes, where it refuses a command: "unknown command 'XADD'", "run the
 * 'config|get' command". */
enum command_name command_name_refused(const char *text);

#endif
