-- This text is put before the scripts that write since when a message waits (OWN in common/queue/scripts.h). stamp() writes a
-- new entry at index `at` of the list: line, the server's time, the seal of both, then message. key makes the seal of this line only.
local t = redis.call('TIME')
local own = string.format(' own=%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
local function stamp(list, at, line, key, message)
  local mac = string.sub(redis.sha1hex(key .. own .. key), 1, 32)
  redis.call('LSET', list, at, line .. own .. ' mac=' .. mac .. '\n' .. message)
end
