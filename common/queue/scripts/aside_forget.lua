-- KEYS: aside aside_log
-- ARGV: none
-- Deletes the records of messages that were set aside, if the list is gone: then all of them are on their way back. While a message lies
-- there, its record stays. A log of another type is another program's. Returns 1: deleted, 0: not.
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('TYPE', KEYS[2]).ok ~= 'stream' then return 0 end
return redis.call('DEL', KEYS[2])
