-- KEYS: lease rescue ingress
-- ARGV: message instead
redis.call('DEL', KEYS[1])
if redis.call('LINDEX', KEYS[2], 0) ~= ARGV[1] then return 0 end
redis.call('RPUSH', KEYS[3], ARGV[2])
redis.call('LPOP', KEYS[2])
return 1
