-- KEYS: workers seats free
-- ARGV: incarnation died_at(ms) value
-- Gives the seats of a name back that died at that time, if its field is as the caller saw it. Returns whether it did.
local ok, worker = pcall(cjson.decode, redis.call('HGET', KEYS[1], ARGV[1]) or '')
local died = ok and type(worker) == 'table' and worker.died_at
if type(died) ~= 'number' or died ~= tonumber(ARGV[2]) or redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[3] then return 0 end
return seats_leave(KEYS[2], KEYS[3], ARGV[1])
