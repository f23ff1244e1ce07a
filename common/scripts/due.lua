-- KEYS: sweeper delayed ingress
-- ARGV: lease_ms limit
local t = redis.call('TIME')
local now = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
for _, message in ipairs(due) do
  redis.call('LPUSH', KEYS[3], message)
  redis.call('ZREM', KEYS[2], message)
end
return #due
