-- KEYS: none claimed
-- ARGV: owner
-- Drops the claims on dead letters (dead_letters_claim.lua) if they are those of node `owner`. Another node may have claimed since the caller
-- looked, and may be writing its archive: its claims stay. Returns 1; 0: they are another's, or there are none.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
if redis.call('HGET', KEYS[2], 'owner') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[2])
