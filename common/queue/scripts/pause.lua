-- KEYS: paused
-- ARGV: why
-- Pauses the queue for an operator. A hold of a handler has an end, and gives way. Returns 1; 0: it was paused without an end.
if redis.call('PTTL', KEYS[1]) == -1 then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
