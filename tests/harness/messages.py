"""What lies in Redis: messages with quredis's wrapper taken off, and keys nobody documented."""
import hashlib
import hmac
import re
import secrets

from . import reach

_WRAPPER = re.compile(rb"quredis/1 w=([0-9a-f]{16})((?: [a-z_]+=[A-Za-z0-9._:+-]*)*)\n")
_INCARNATION = r"[A-Za-z0-9._-]+\.[0-9a-f]{16}\.\d+\.\d+"
_OF_A_QUEUE = [
    "ingress:{q}", "delayed:{q}",
    "quredis:of:ingress:{q}:(delayed|delayed:apart|delayed:apart:[0-9a-f]+|paused|cancels|throttle|seats|seats:free|sweeper|stats|done|notes|schedules)",
    r"quredis:of:ingress:{q}:(rate|backlog):\d+",
    "transit:{q}",
    "transit:{q}:workers", "transit:{q}:(rescue|aside|aside:log)", "transit:{q}:{inc}:([0-2]|rescue)", "transit:{q}:lease:{inc}", "escape:{q}",
    "escape:{q}:log", "escape:{q}:(forwarded|claimed|operations)", "quredis:queue:{q}",
]
_OF_ALL = ["quredis:queues", "quredis:secret", "quredis:schema", "quredis:health", "quredis:node:[A-Za-z0-9._-]+(:clock)?",
           "quredis:throttle:[A-Za-z0-9._-]+(:seats(:free)?)?"]


def unwrap(raw):
    """(what the wrapper says, the producer's message)."""
    m = _WRAPPER.match(raw)
    if not m:
        return {}, raw
    fields = dict(f.split("=", 1) for f in m[2].decode().split())
    return {k: int(v) if v.isdecimal() else v for k, v in fields.items() if k != "mac"}, raw[m.end():]


def sealed_all(client, messages, ingress="ingress:mail"):
    """Messages that begin with a wrapper, with the seals that quredis gives them in this queue."""
    if not client.exists("quredis:secret"):         # a full Redis refuses any SET
        client.set("quredis:secret", secrets.token_hex(32), nx=True)
    key = bytes.fromhex(client.get("quredis:secret").split()[0].decode())

    def code(purpose, text):
        return hmac.new(key, b"%s\0%s\0%s" % (purpose, reach.key(ingress).encode(), text), hashlib.sha256).hexdigest()

    def seal(raw):
        line, rest = (raw.encode() if isinstance(raw, str) else raw).split(b"\n", 1)
        plain, own, time = line.partition(b" own=")
        if own and b" " not in time:        # by Redis, with a key for this line only
            once = code(b"claim", plain).encode()
            mac = hashlib.sha1(once + own + time + once).hexdigest()
        else:
            mac = code(b"line", line)
        return b"%s mac=%s\n%s" % (line, mac[:32].encode(), rest)
    return [seal(raw) for raw in messages]


def sealed(client, raw, ingress="ingress:mail"):
    """One of them."""
    return sealed_all(client, [raw], ingress)[0]


def trays(client, queue):
    """Key -> messages, of everything in transit: trays, rescue lists, the bare list. Default names."""
    keys = [k for k in client.keys(f"transit:{queue}*") if client.type(k) == b"list"]
    return {k.decode(): client.lrange(k, 0, -1) for k in keys}


def in_transit(client, queue):
    return [m for held in trays(client, queue).values() for m in held]


# At one moment: read one by one, a message that moves meanwhile would be in none of them.
_ANYWHERE = r"""
local out = {}
local function add(key)
  local kind, found = redis.call('TYPE', key).ok, {}
  if string.find(key, ':scratch:', 1, true) then return end
  if kind == 'list' then found = redis.call('LRANGE', key, 0, -1) end
  if kind == 'zset' then found = redis.call('ZRANGE', key, 0, -1) end
  for _, message in ipairs(found) do
    local apart = kind == 'zset' and string.match(message, '^quredis/1 w=(%x+)[^\n]* apart=1[^\n]*\n$')
    local kept = apart and redis.call('LRANGE', key .. ':apart:' .. apart, 0, 1)
    out[#out + 1] = kept and message .. string.sub(kept[1], kept[2] + 1) or message
  end
end
add(KEYS[1])
for _, key in ipairs(redis.call('KEYS', KEYS[2])) do add(key) end
add(KEYS[3])
add(KEYS[4])
return out
"""


def anywhere(client, queue):
    """All messages of a queue outside escape, raw, at one moment, without those that a rehearsal of rights moves."""
    return client.eval(_ANYWHERE, 4, f"ingress:{queue}", f"transit:{queue}*", f"quredis:of:ingress:{queue}:delayed", f"delayed:{queue}")


def stray_keys(client, *queues, prefixes=("",)):
    """Keys that are in no table of the documentation, behind none of these values of redis.prefix."""
    plain = _OF_ALL + [p.format(q=re.escape(q), inc=_INCARNATION) for q in queues for p in _OF_A_QUEUE]
    known = [re.escape(prefix) + p for prefix in prefixes for p in plain]
    return sorted(k for k in (k.decode(errors="replace") for k in client.keys())
                  if not any(re.fullmatch(p, k) for p in known))


def record(client, queue, index=0):
    """The index-th newest record of a dead letter as a dict of bytes, its stream id as "stream_id"."""
    entries = client.xrevrange(f"escape:{queue}:log", count=index + 1)
    assert len(entries) > index, f"{len(entries)} records"
    return {**{k.decode(): v for k, v in entries[index][1].items()}, "stream_id": entries[index][0].decode()}
