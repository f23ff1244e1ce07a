-- KEYS: stream
-- ARGV: from until most bytes shown
-- Reads records from the id `from` on: downwards, or upwards to the id `until` if that is not ''. Reads at most `most`, and none
-- after it has read `bytes`. Returns records as XRANGE does, but only the first `shown` bytes of each value.
local page, from, room, shown = {}, ARGV[1], tonumber(ARGV[4]), tonumber(ARGV[5])
local up = ARGV[2] ~= ''
for i = 1, tonumber(ARGV[3]) do
  local record = room > 0 and (up and redis.call('XRANGE', KEYS[1], from, ARGV[2], 'COUNT', 1)
    or redis.call('XREVRANGE', KEYS[1], from, '-', 'COUNT', 1))[1]
  if not record then break end
  for f, value in ipairs(record[2]) do
    room = room - #value
    record[2][f] = string.sub(value, 1, shown)
  end
  page[i] = record
  local ms, serial = string.match(record[1], '^(%d+)%-(%d+)$')
  if #ms > 15 or #serial > 15 then break end    -- numbers of Lua are exact up to here; the caller goes on
  if up then
    from = string.format('%s-%.0f', ms, serial + 1)
  else
    from = serial ~= '0' and string.format('%s-%.0f', ms, serial - 1) or string.format('%.0f-18446744073709551615', ms - 1)
  end
end
return page
