-- KEYS: workers lease source rescue [tray0 tray1 tray2]
-- ARGV: field
-- Renames a tray to the rescue list, so that no later command of the old owner can touch its messages. Stores in
-- `field` the largest number of messages that all its trays held at once: a death charges a message only if it was
-- alone.
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
