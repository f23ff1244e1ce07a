-- KEYS: lease delayed ingress
-- ARGV: limit [plain]
-- Returns for each that was moved how many ms it was late. plain: what was put before a message stays behind, since
-- others fetch from ingress, too.
local t = redis.call('TIME')
local now = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
local due, late = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ARGV[1]), {}
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
for i, message in ipairs(due) do
  late[i] = math.min(now - redis.call('ZSCORE', KEYS[2], message), 1e15)
  redis.call('LPUSH', KEYS[3], ARGV[2] and string.match(message, '^quredis/1 w=[^\n]*\n(.*)$') or message)
  local removed = redis.pcall('ZREM', KEYS[2], message)
  if removed ~= 1 then                      -- refused: the copy must not stay
    redis.call('LPOP', KEYS[3])
    return removed
  end
end
return late
