-- KEYS: workers lease tray0 tray1 tray2 rescue [seats free]
-- ARGV: incarnation field keep_ms
if redis.call('EXISTS', KEYS[3], KEYS[4], KEYS[5], KEYS[6]) > 0 then return 0 end
local ok, worker = pcall(cjson.decode, redis.call('HGET', KEYS[1], ARGV[1]) or '')
if ok and type(worker) == 'table' then
  local t = redis.call('TIME')
  if type(worker.died_at) ~= 'number' or t[1] * 1000 + math.floor(t[2] / 1000) - worker.died_at < tonumber(ARGV[3]) then return 0 end
end
redis.call('DEL', KEYS[2])
seats_leave(KEYS[7], KEYS[8], ARGV[1])
redis.call('HDEL', KEYS[1], ARGV[1], ARGV[2])
return 1
