-- KEYS: lease delayed ingress
-- ARGV: limit
redis.call('DEL', KEYS[1])
local early = redis.call('ZRANGE', KEYS[2], 0, ARGV[1] - 1)
for _, message in ipairs(early) do
  redis.call('LPUSH', KEYS[3], message)
  redis.call('ZREM', KEYS[2], message)
end
return #early
