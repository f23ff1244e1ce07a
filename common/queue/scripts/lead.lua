-- KEYS: none sweeper
-- ARGV: name lease_ms
-- Takes, renews or (lease_ms 0) gives up the lead of a queue. Returns 1: `name` has the lead for lease_ms, or gave it
-- up; 0: another sweeper has it. A name ends with a blank and the lock of its supervisor. Only one living supervisor
-- holds a lock, so a holder with our lock and another name is a dead predecessor: its lease is not waited for.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local holder, lock = redis.call('GET', KEYS[2]), ARGV[1]:match(' .*')
local dead = holder and lock and ARGV[2] ~= '0' and holder:sub(-#lock) == lock
if holder and holder ~= ARGV[1] and not dead then return 0 end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[2])
else
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
end
return 1
