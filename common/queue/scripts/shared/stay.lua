-- seats_limit(seats, known, own, now): the limit that counts. known, own: `loaded max host`; of different ones those that were loaded last count.
local function seats_limit(seats, known, own, now)
  local loaded, max = (known or ''):match('^(%d+) ([1-9]%d*) %S+$')
  loaded = tonumber(loaded or 0)
  if max and loaded > tonumber(own:match('^%d+')) and loaded < now + 60000 then return tonumber(max) end
  if known ~= own then redis.call('HSET', seats, 'limit', own) end
  return tonumber(own:match(' (%d+) '))
end

-- seats_stay(seats, name, value, server, limit, now): true if a name that has seats already asks for no other number of them, and no other one waits.
local function seats_stay(seats, name, value, server, limit, now)
  local had, of, known, refused = unpack(redis.call('HMGET', seats, name, 'server', 'limit', 'refused'))
  local is, till = (had == value and known == limit and of or ''):match('^(%S+) (%d+)$')
  return is == server and tonumber(till) < now and not (refused and math.abs(now - (tonumber(refused:match('^%d+')) or 0)) < 8000)
end
