-- KEYS: lease rescue ingress
-- ARGV: message instead
redis.call('DEL', KEYS[1])
if redis.call('LINDEX', KEYS[2], 0) ~= ARGV[1] then return 0 end
redis.call('RPUSH', KEYS[3], ARGV[2])
local removed = redis.pcall('LPOP', KEYS[2])
if type(removed) == 'table' then            -- refused: the copy must not stay
  redis.call('RPOP', KEYS[3])
  return removed
end
return 1
