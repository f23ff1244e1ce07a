-- KEYS: registry registered
-- ARGV: name score entry
-- Removes a queue from the registry, if its score and its entry are still as the caller saw them; entry "": it had
-- none. Returns 1; 0: they have changed.
local entry = redis.call('GET', KEYS[2]) or ''
if redis.call('ZSCORE', KEYS[1], ARGV[1]) ~= ARGV[2] or entry ~= ARGV[3] then return 0 end
redis.call('DEL', KEYS[2])
redis.call('ZREM', KEYS[1], ARGV[1])
return 1
