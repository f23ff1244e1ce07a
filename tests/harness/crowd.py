"""Many of each thing that Redis holds for a queue `mail`. Scripts in Redis make them, so that 10,000 take a fraction of a second."""
LIBRARY = """
local n, lock, now = tonumber(ARGV[1]), ARGV[2], redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)
local mail, day = 'quredis:of:ingress:mail', 86400000
local function ms(at) return string.format('%d', at) end
local function call(...) return redis.call(...) end
local function name(i, generation) return string.format('%s.%016x.3.%d', ARGV[3], i, generation or 1) end
local function tray(i) return 'transit:mail:' .. name(i) .. ':0' end
local function message(i) return string.format('message %d', i) end
local function owner(i, more, generation)
  call('HSET', 'transit:mail:workers', name(i, generation), string.format(
    '{"lock":"%s","node":"far","pid":%d,"since":1,"lease":1000%s}', lock, i, more or ''))
end
local function died(i, at) owner(i, ',"died_at":' .. ms(at)) end
local function lease(i, generation) call('SET', 'transit:mail:lease:' .. name(i, generation), 1, 'PX', 3600000) end
local function record(i, at, m)
  local fields = {'id', 'm' .. i, 'queue', 'mail', 'queue_from', 'transit', 'error_class', 'E' .. i % 50, 'sha1', redis.sha1hex(m),
    'error_message', 'exit status 3', 'failed_at', '2026-11-20T14:31:07.123Z', 'stderr', 'no such user ' .. i, 'message', m, 'size', #m}
  for _, field in ipairs({'retry_count', 'attempts', 'crashes', 'exit_code', 'signal', 'duration_ms'}) do
    fields[#fields + 1], fields[#fields + 2] = field, '1'
  end
  for _, field in ipairs({'node', 'worker', 'handler', 'first_failed_at', 'request_id'}) do
    fields[#fields + 1], fields[#fields + 2] = field, ''
  end
  call('XADD', 'escape:mail:log', ms(at) .. '-' .. i, unpack(fields))
end
local function dead(i, at, m) call('LPUSH', 'escape:mail', m); record(i, at, m) end
local function done(i, at)
  call('XADD', mail .. ':done', ms(at) .. '-' .. i, 'id', 'm' .. i, 'node', 'far', 'worker', 'mail/0', 'attempts', '1',
    'duration_ms', '3', 'size', '9', 'message', '')
end
local function queue(i)
  call('ZADD', 'quredis:queues', math.floor(now / 1000), 'q' .. i)
  call('SET', 'quredis:queue:q' .. i, string.format(
    '{"name":"q%d","ingress":"ingress:q%d","transit":"transit:q%d","escape":"escape:q%d"}', i, i, i, i))
end
local function node(i)
  call('SET', 'quredis:node:n' .. i, string.format('{"node":"n%d","version":"1","pid":1,"boot":"%016x",' ..
    '"started":"2026-11-20T14:31:07.123Z","at":"2026-11-20T14:31:07.123Z","at_ms":%d,"queues":[{"name":"mail",' ..
    '"state":"running","wanted":1,"workers":{"idle":1},"restarts":0,"breaker":false}],"running":[]}', i, i, now), 'PX', 3600000)
end
for i = 1, n do
"""

# The i-th of n. In this order all of them can be made in one Redis: identifiers of streams only grow.
THINGS = {
    "waiting": "call('LPUSH', 'ingress:mail', message(i))",
    # owners of trays
    "living": "owner(i); lease(i); call('LPUSH', tray(i), message(i))",
    "names_of_one": "owner(1, '', i); lease(1, i)",
    "marked_dead": "died(i, now)",
    "long_dead": "died(i, now - day)",
    "silent": "owner(i)",
    "with_broken_trays": "owner(i); call('SET', tray(i), 'no list')",
    "broken_off": "call('HSET', 'transit:mail:workers', name(i) .. ':rescue', 1)",
    "unregistered": "call('LPUSH', tray(i), message(i))",
    # messages in flight, all of one owner
    "in_a_tray": "owner(1); call('LPUSH', tray(1), message(i))",
    "in_the_bare_list": "call('LPUSH', 'transit:mail', message(i))",
    "set_aside": "call('LPUSH', 'transit:mail:aside', message(i)); "
                 "call('XADD', 'transit:mail:aside:log', '*', 'size', '5', 'error_message', 'OOM')",
    # delayed ones
    "retries_due": "call('ZADD', mail .. ':delayed', 1000, message(i))",
    "retries": "call('ZADD', mail .. ':delayed', ms(now + day), message(i))",
    "payloads_apart": "call('HSET', mail .. ':delayed:apart', string.format('%016x', i), 5)",
    "pushes_due": "call('ZADD', 'delayed:mail', 1, message(i))",
    "pushes": "call('ZADD', 'delayed:mail', ms((now + day) / 1000), message(i))",
    # dead letters
    "old_dead_letters": "dead(i, now - 12 * day, message(i))",
    "equal_dead_letters": "dead(i, now - 11 * day, 'always the same')",
    "records_alone": "record(i, now - 10 * day, 'nowhere ' .. i)",
    "dead_letters": "dead(i, now - 1000, message(i))",
    "without_records": "call('LPUSH', 'escape:mail', message(i))",
    "claimed": "call('HSET', 'escape:mail:claimed', '1-' .. i, redis.sha1hex(message(i)))",
    "operations": "call('HSET', 'escape:mail:operations', string.format('%08x', i), 'x')",
    # figures and reports
    "old_history": "done(i, now - day)",
    "history": "done(i, now - 1000)",
    "queues": "queue(i)",
    "nodes": "node(i)",
    "healths": "call('HSET', 'quredis:health', 'q' .. i, string.format('{\"status\":\"healthy\",\"at_ms\":%d}', now))",
    "notes": "call('HSET', mail .. ':notes', redis.sha1hex(message(i)), 'crashes=1')",
}


def fill(client, thing, n, lock="elsewhere:1:1"):
    """lock: the identity of the lock of the owners' supervisors."""
    client.set("quredis:secret", "5" * 64, nx=True)     # of the supervisors that left all that
    client.eval(f"{LIBRARY}{THINGS[thing]}\nend", 0, n, lock, thing)


def grows_with(few, many, times, noise):
    """True: the cost of ten times as many is at most `times` that of few."""
    return many <= times * few + noise
