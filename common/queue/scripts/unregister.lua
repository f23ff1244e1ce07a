-- KEYS: registry registered
-- ARGV: name score entry
-- A queue leaves the registry, if it stands there as it did; an entry of "" was not there. Returns 1, else 0.
local entry = redis.call('GET', KEYS[2]) or ''
if redis.call('ZSCORE', KEYS[1], ARGV[1]) ~= ARGV[2] or entry ~= ARGV[3] then return 0 end
redis.call('DEL', KEYS[2])
redis.call('ZREM', KEYS[1], ARGV[1])
return 1
