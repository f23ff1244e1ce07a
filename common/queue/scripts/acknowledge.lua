-- KEYS: lease tray
-- ARGV: moved
-- Acknowledges a whole tray, as done.lua does, but writes no history and forgets no notes. It is short because a queue whose messages
-- are fetched one by one calls it for each. moved: as in done.lua. Returns 1; 0: the tray was not there; -2: as done.lua.
if tonumber(redis.call('HGET', KEYS[1], KEYS[2]) or 0) ~= tonumber(ARGV[1]) then return -2 end
return redis.call('DEL', KEYS[2])
