-- KEYS: workers lease
-- ARGV: incarnation
redis.call('DEL', KEYS[2])
local ok, worker = pcall(cjson.decode, redis.call('HGET', KEYS[1], ARGV[1]) or '')
if not ok or type(worker) ~= 'table' or worker.died_at then return 0 end
local t = redis.call('TIME')
worker.died_at = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(worker))
return 1
