-- KEYS: workers lease source rescue [tray0 tray1 tray2]
-- ARGV: field
-- From here on nothing the old owner still sends can touch its messages. field remembers the most there were
-- in all its trays at once: a message that was alone is charged with the death, others are not.
redis.call('DEL', KEYS[2])
if redis.call('EXISTS', KEYS[4]) == 1 then return -1 end
local n = redis.call('LLEN', KEYS[3])
if n == 0 then return 0 end
local all = 0
for i = 5, #KEYS do
  local len = redis.pcall('LLEN', KEYS[i])
  if type(len) == 'number' then all = all + len end
end
local before = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
redis.call('HSET', KEYS[1], ARGV[1], math.max(before or 0, all, n))
redis.call('RENAME', KEYS[3], KEYS[4])
return n
