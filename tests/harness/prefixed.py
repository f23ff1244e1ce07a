"""A client that sees only the keys behind a prefix, and sees them without it: tests spell keys as they are without redis.prefix."""
import redis

# where the keys of a command are: positions behind its name, or all of them
_FIRST = {0: """APPEND DECR DUMP EXPIRE GET GETDEL GETRANGE GETSET HDEL HEXISTS HGET HGETALL HINCRBY HKEYS HLEN HMGET HMSET HSET HSETNX HVALS INCR INCRBY LINDEX
LINSERT LLEN LPOP LPUSH LPUSHX LRANGE LREM LSET LTRIM PERSIST PEXPIRE PEXPIREAT PTTL RESTORE RPOP RPUSH RPUSHX SADD SCARD SET SETEX SETRANGE SISMEMBER SMEMBERS
SREM STRLEN TTL TYPE XADD XDEL XINFO XLEN XRANGE XREVRANGE XTRIM
ZADD ZCARD ZCOUNT ZPOPMIN ZRANGE ZRANGEBYSCORE ZRANK ZREM ZREMRANGEBYSCORE ZREVRANGE ZSCORE KEYS""".split()}
_PLACES = {name: places for places, names in {
    (0,): _FIRST[0], (0, 1): ["BLMOVE", "BRPOPLPUSH", "COPY", "LMOVE", "RENAME", "RENAMENX", "RPOPLPUSH"], (1,): ["MEMORY", "OBJECT"],
}.items() for name in names}
_ALL = {"DEL", "EXISTS", "MGET", "TOUCH", "UNLINK", "WATCH"}
_SCRIPTS = {"EVAL", "EVALSHA"}
_NONE = set("""ACL AUTH BGREWRITEAOF BGSAVE CLIENT CLUSTER COMMAND CONFIG DBSIZE DEBUG DISCARD ECHO EXEC FLUSHALL FLUSHDB HELLO INFO LASTSAVE MONITOR MULTI PING
QUIT PUBLISH REPLICAOF ROLE SAVE SCRIPT SELECT SHUTDOWN SLOWLOG TIME UNWATCH WAIT""".split())


def _places(name, words):
    """Indices in `words` (behind the name) that are keys."""
    if name in _ALL:
        return range(len(words))
    if name in _SCRIPTS:
        return range(2, 2 + int(words[1]))
    if name == "SCAN":
        upper = [_text(w).upper() for w in words]
        return [upper.index("MATCH") + 1] if "MATCH" in upper else []
    if name in _NONE:
        return []
    assert name in _PLACES, f"tests/harness/prefixed.py does not know where {name} has its keys"
    return _PLACES[name]


def _text(word):
    return bytes(word).decode(errors="replace") if isinstance(word, (bytes, bytearray)) else str(word)


def _longer(key, prefix):
    return prefix.encode() + bytes(key) if isinstance(key, (bytes, bytearray)) else prefix + key


def with_prefix(prefix, command):
    """The command, a sequence of its words, with the prefix before its keys."""
    name, *second = _text(command[0]).upper().split(" ")            # redis-py sends "MEMORY USAGE" as one word
    words = [*second, *command[1:]]
    places = set(_places(name, words))
    out = [_longer(w, prefix) if i in places else w for i, w in enumerate(words)][len(second):]
    if name == "SCAN" and not places:
        out += ["MATCH", prefix + "*"]
    return [command[0], *out]


def without_prefix(prefix, reply):
    """The reply, wherever the prefix stands in it: in names of keys, and in values that name keys."""
    if isinstance(reply, bytes):
        return reply.replace(prefix.encode(), b"")
    if isinstance(reply, str):
        return reply.replace(prefix, "")
    if isinstance(reply, list):
        return [without_prefix(prefix, r) for r in reply]
    return reply


def connection_class(prefix):
    """Of redis-py, on a unix socket; "" is its own."""
    if not prefix:
        return redis.UnixDomainSocketConnection

    class Prefixed(redis.UnixDomainSocketConnection):
        def send_command(self, *args, **options):
            super().send_command(*with_prefix(prefix, args), **options)

        def pack_commands(self, commands):
            return super().pack_commands([with_prefix(prefix, c) for c in commands])

        def read_response(self, *args, **options):
            return without_prefix(prefix, super().read_response(*args, **options))
    return Prefixed
