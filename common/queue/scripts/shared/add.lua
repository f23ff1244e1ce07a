-- This text is put before the scripts that count in hashes (ADD in common/queue/scripts.h). A value that is no number begins anew.
local function add(key, field, n)
  local added = redis.pcall('HINCRBY', key, field, n)
  if type(added) ~= 'table' then return end
  if string.find(added.err, 'not an integer') or string.find(added.err, 'overflow') then redis.call('HDEL', key, field) end
  redis.call('HINCRBY', key, field, n)
end
local function number(value) return math.min(tonumber(string.match(value, '^%d+')) or 0, 1e15) end
-- The value begins with its time in ms. A host may write an older one last. One that is a minute later is none: a clock was set.
local function set_latest(key, field, value)
  local later = number(redis.call('HGET', key, field) or '') - number(value)
  if later <= 0 or later > 60000 then redis.call('HSET', key, field, value) end
end
-- A batch of figures counts once, however often its sender sends it before it has seen the answer.
local function repeated(key, field, id)
  if redis.call('HGET', key, field) == id then return true end
  redis.call('HSET', key, field, id)
end
