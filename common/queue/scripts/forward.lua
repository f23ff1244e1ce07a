-- KEYS: none log forwarded
-- ARGV: most bytes [before last]
-- Reads the records that are to be forwarded next: at most `most`, and none after it has read `bytes`. With before and last, first notes
-- `last` as the id of the last forwarded record, unless the noted id is not `before` or the log has not given `last` out: Redis then returned
-- to an earlier state. Returns the noted id (0-0: none, or one that the log has not given out), then the records after it, oldest first.
local function parts(id) return string.match(id or '', '^(%d+)%-(%d+)$') end
local function is_newer(ms, serial, than_ms, than) return tonumber(ms) > tonumber(than_ms) or (ms == than_ms and tonumber(serial) > tonumber(than)) end
local info, last_ms, last = redis.pcall('XINFO', 'STREAM', KEYS[2]), '0', '0'
if info.err and not string.find(info.err, 'no such key') then return info end
for i = 1, #info, 2 do if info[i] == 'last-generated-id' then last_ms, last = parts(info[i + 1]) end end
local ms, serial = parts(redis.call('GET', KEYS[3]))
if not ms or is_newer(ms, serial, last_ms, last) then ms, serial = '0', '0' end
if ARGV[3] == ms .. '-' .. serial then
  local to_ms, to = parts(ARGV[4])
  if to_ms and not is_newer(to_ms, to, last_ms, last) then
    redis.call('DEL', KEYS[1])              -- never there: a first write that maxmemory allows
    redis.call('SET', KEYS[3], ARGV[4])
    ms, serial = to_ms, to
  end
end
local out, room = { ms .. '-' .. serial }, tonumber(ARGV[2])
for i = 1, tonumber(ARGV[1]) do
  local from = #serial < 16 and string.format('%s-%.0f', ms, serial + 1) or string.format('%.0f-0', ms + 1)
  local record = room > 0 and #ms < 16 and redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', 1)[1]
  if not record then break end
  out[i + 1] = record
  for _, field in ipairs(record[2]) do room = room - #field end
  ms, serial = parts(record[1])
end
return out
