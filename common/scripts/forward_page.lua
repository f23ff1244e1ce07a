-- KEYS: log forwarded
-- ARGV: most bytes
-- Records behind the last that was forwarded, oldest first, as many as fit but one at least. A log that is younger than that
-- one was made anew: all of it.
local function parts(id) return string.match(id or '', '^(%d+)%-(%d+)$') end
local info, out = redis.pcall('XINFO', 'STREAM', KEYS[1]), {}
if info.err and string.find(info.err, 'no such key') then return out end
if info.err then return info end
local newest
for i = 1, #info, 2 do if info[i] == 'last-generated-id' then newest = info[i + 1] end end
local ms, serial = parts(redis.call('GET', KEYS[2]))
local last_ms, last = parts(newest)
if not ms or tonumber(ms) > tonumber(last_ms) or (ms == last_ms and tonumber(serial) > tonumber(last)) then ms, serial = '0', '0' end
local room = tonumber(ARGV[2])
for i = 1, tonumber(ARGV[1]) do
  local from = #serial < 16 and string.format('%s-%.0f', ms, serial + 1) or string.format('%.0f-0', ms + 1)
  local record = room > 0 and #ms < 16 and redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', 1)[1]
  if not record then break end
  out[i] = record
  for _, field in ipairs(record[2]) do room = room - #field end
  ms, serial = parts(record[1])
end
return out
