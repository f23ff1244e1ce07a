-- KEYS: workers lease tray0 tray1 tray2 rescue [seats free]
-- ARGV: incarnation
if redis.call('EXISTS', KEYS[3], KEYS[4], KEYS[5], KEYS[6]) > 0 then return 0 end
redis.call('DEL', KEYS[2])
seats_leave(KEYS[7], KEYS[8], ARGV[1])
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
