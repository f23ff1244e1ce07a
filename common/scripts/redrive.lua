-- KEYS: lease escape log ingress
-- ARGV: message wrapped [record_id]
redis.call('DEL', KEYS[1])
redis.call('LPUSH', KEYS[4], ARGV[2])
local removed = redis.pcall('LREM', KEYS[2], -1, ARGV[1])
if removed ~= 1 then                        -- not there, or refused: the copy must not stay
  redis.call('LPOP', KEYS[4])
  return removed
end
if ARGV[3] then redis.pcall('XDEL', KEYS[3], ARGV[3]) end
return 1
