-- KEYS: none sweeper
-- ARGV: name lease_ms
-- Takes, renews or (lease_ms 0) gives up the lead of a queue. Returns 1: `name` has the lead for lease_ms, or gave it
-- up; 0: another sweeper has it.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local holder = redis.call('GET', KEYS[2])
if holder and holder ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[2])
else
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
end
return 1
