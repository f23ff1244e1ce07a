-- KEYS: escape log
-- ARGV: most bytes entries from [id ...]
-- Reads the oldest dead letters, at most `entries`, and the oldest records, at most `most`, oldest first: of each as many as fit into `bytes`, at
-- least one. Records: those with these ids, then those from `from` on. Returns both lengths, the time, entries, records, the id of the newest record.
local entries, records, from, t = {}, {}, ARGV[4], redis.call('TIME')
local room, newest = tonumber(ARGV[2]), redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1] or { '0-0' }
for i = 1, tonumber(ARGV[3]) do
  local entry = room > 0 and redis.call('LINDEX', KEYS[1], -i)
  if not entry then break end
  entries[i] = entry
  room = room - #entry
end
room = tonumber(ARGV[2])
local function take(record)
  records[#records + 1] = record
  for _, field in ipairs(record[2]) do room = room - #field end
end
for i = 5, #ARGV do
  local record = room > 0 and redis.call('XRANGE', KEYS[2], ARGV[i], ARGV[i])[1]
  if record then take(record) end
end
for i = #records + 1, tonumber(ARGV[1]) do
  local record = room > 0 and redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', 1)[1]
  if not record then break end
  take(record)
  local ms, serial = string.match(record[1], '^(%d+)%-(%d+)$')
  if #ms > 15 then break end                -- no real time: numbers of Lua are exact up to here
  from = #serial < 16 and string.format('%s-%.0f', ms, serial + 1) or string.format('%.0f-0', ms + 1)
end
return { redis.call('LLEN', KEYS[1]), redis.call('XLEN', KEYS[2]), t[1] * 1000 + math.floor(t[2] / 1000), entries, records, newest[1] }
