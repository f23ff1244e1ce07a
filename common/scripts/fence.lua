-- KEYS: workers lease source rescue
-- ARGV: field
-- From here on nothing the old owner still sends can touch its messages. field remembers how many
-- there were: a message that was alone is charged with the death, others are not.
redis.call('DEL', KEYS[2])
if redis.call('EXISTS', KEYS[4]) == 1 then return -1 end
local n = redis.call('LLEN', KEYS[3])
if n > 0 then
  redis.call('HSET', KEYS[1], ARGV[1], n)
  redis.call('RENAME', KEYS[3], KEYS[4])
end
return n
