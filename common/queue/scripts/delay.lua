-- KEYS: delayed
-- ARGV: from_ms delay_ms first message ...
-- Adds messages to delayed, delay_ms after from_ms, or after now if that is 0. Redis would sort equal times by nonce, so fractions keep the order of the
-- producer. Returns when the first of them is due, in ms since 1970.
local t = redis.call('TIME')
local due = (ARGV[1] == '0' and t[1] * 1000 + math.floor(t[2] / 1000) or ARGV[1]) + ARGV[2]
for i = 4, #ARGV do
  redis.call('ZADD', KEYS[1], 'NX', string.format('%.3f', due + (ARGV[3] + i - 4) / 1000), ARGV[i])
end
return due
