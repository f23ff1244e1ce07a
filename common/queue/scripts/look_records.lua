-- KEYS: stream
-- ARGV: from to way most bytes shown [field ...]
-- Reads records from the id `from` to the id `to`, upwards (way 'up') or downwards. Reads at most `most`, and none after it has read `bytes`.
-- Returns records as XRANGE does, but only the first `shown` bytes of each value; with fields only these (of a field name:N its first N bytes).
local page, from, room, shown, up, wanted = {}, ARGV[1], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[3] == 'up', ARGV[7] and {}
for i = 7, #ARGV do
  local name, most = string.match(ARGV[i], '^([^:]*):?(%d*)$')
  wanted[name] = tonumber(most) or shown
end
for i = 1, tonumber(ARGV[4]) do
  local record = room > 0 and redis.call(up and 'XRANGE' or 'XREVRANGE', KEYS[1], from, ARGV[2], 'COUNT', 1)[1]
  if not record then break end
  local fields, cut = record[2], {}
  for f = 1, #fields, 2 do
    room = room - #fields[f] - #fields[f + 1]
    if not wanted or wanted[fields[f]] then
      cut[#cut + 1] = string.sub(fields[f], 1, shown)
      cut[#cut + 1] = string.sub(fields[f + 1], 1, wanted and wanted[fields[f]] or shown)
    end
  end
  page[i] = { record[1], cut }
  local ms, serial = string.match(record[1], '^(%d+)%-(%d+)$')
  if #ms > 15 or #serial > 15 then break end    -- numbers of Lua are exact up to here; the caller goes on
  if up then
    from = string.format('%s-%.0f', ms, serial + 1)
  else
    from = serial ~= '0' and string.format('%s-%.0f', ms, serial - 1) or string.format('%.0f-18446744073709551615', ms - 1)
  end
end
return page
