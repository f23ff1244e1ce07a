-- KEYS: delayed
-- ARGV: delay_ms first message ...
-- Adds messages to delayed. Redis would sort equal times by nonce, so fractions keep the order of the producer.
local t = redis.call('TIME')
local due = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[1]
local n = 0
for i = 3, #ARGV do
  local at = due + (ARGV[2] + i - 3) % 1000 / 1000
  n = n + redis.call('ZADD', KEYS[1], 'NX', string.format('%.3f', at), ARGV[i])
end
return n
