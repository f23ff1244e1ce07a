-- KEYS: workers lease
-- ARGV: lease_ms incarnation key value
-- Writes key=value into the registration of an owner. A rescue reads it to decide what the owner's death charges.
-- Returns 1; 0: the owner is unknown or marked dead, and nothing is written.
redis.call('PEXPIRE', KEYS[2], ARGV[1])     -- the first write decides what maxmemory allows
local ok, worker = pcall(cjson.decode, redis.call('HGET', KEYS[1], ARGV[2]) or '')
if not ok or type(worker) ~= 'table' or worker.died_at then return 0 end
worker[ARGV[3]] = ARGV[4]
redis.call('HSET', KEYS[1], ARGV[2], cjson.encode(worker))
return 1
