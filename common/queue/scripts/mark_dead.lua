-- KEYS: workers lease [seats free]
-- ARGV: incarnation
redis.call('DEL', KEYS[2])
local ok, worker = pcall(cjson.decode, redis.call('HGET', KEYS[1], ARGV[1]) or '')
if not ok or type(worker) ~= 'table' or type(worker.died_at) == 'number' then return 0 end
seats_leave(KEYS[3], KEYS[4], ARGV[1])      -- a name that its process has left keeps them until that has moved them
local t = redis.call('TIME')
worker.died_at = t[1] * 1000 + math.floor(t[2] / 1000)
local written, json = pcall(cjson.encode, worker)
redis.call('HSET', KEYS[1], ARGV[1], written and json or cjson.encode({ died_at = worker.died_at }))
return 1
