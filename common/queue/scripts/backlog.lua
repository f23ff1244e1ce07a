-- KEYS: none ingress backlog
-- ARGV: minute keep_ms
-- Notes how many messages wait: the most that was seen in this minute of the hour. Several hosts may note it. Returns how many wait now.
local waiting = redis.call('LLEN', KEYS[2])
if waiting > tonumber(redis.call('HGET', KEYS[3], ARGV[1]) or -1) then
  redis.call('DEL', KEYS[1])                -- never there: a first write that maxmemory allows
  redis.call('HSET', KEYS[3], ARGV[1], waiting)
  redis.call('PEXPIRE', KEYS[3], ARGV[2])
end
return waiting
