-- KEYS: schedules
-- ARGV: name ...
-- Deletes the records of all schedules but these. Returns how many it deleted.
local kept, n = {}, 0
for _, name in ipairs(ARGV) do kept[name] = true end
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if not kept[all[i]] then n = n + redis.call('HDEL', KEYS[1], all[i]) end
end
return n
