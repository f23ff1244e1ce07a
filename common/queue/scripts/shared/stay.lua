-- seats_limit(seats, known, own, now): the limit that counts. known, own: `loaded max host`; of different ones those that were loaded last count.
local function seats_limit(seats, known, own, now)
  local loaded, max = (known or ''):match('^(%d+) ([1-9]%d*) %S+$')
  loaded = tonumber(loaded or 0)
  if max and loaded > tonumber(own:match('^%d+')) and loaded < now + 60000 then return tonumber(max) end
  if known ~= own then redis.call('HSET', seats, 'limit', own) end
  return tonumber(own:match(' (%d+) '))
end

-- seats_stay(seats, name, value, server, limit, now): true if a name that has seats already asks for no other number of them, and no other one waits. Another
-- host may have loaded the same maximum later.
local function seats_stay(seats, name, value, server, limit, now)
  local had, of, known, refused = unpack(redis.call('HMGET', seats, name, 'server', 'limit', 'refused'))
  local loaded, max = (known or ''):match('^(%d+) (%d+) ')
  local own, own_max = limit:match('^(%d+) (%d+) ')
  local same = had == value and max == own_max and tonumber(own) <= tonumber(loaded)
  local is, till = (same and of or ''):match('^(%S+) (%d+)$')
  return is == server and till == '0' and not (refused and math.abs(now - (tonumber(refused:match('^%d+')) or 0)) < 8000)
end
