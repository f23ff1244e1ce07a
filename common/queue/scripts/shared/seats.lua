-- seats_wake(free, n, name): wakes n workers that wait for a seat, if there are so many; those that come later find no entry that is old. A key of another
-- type stays as its owner left it.
local function seats_wake(free, n, name)
  local length
  for _ = 1, math.min(n, 16) do length = redis.pcall('RPUSH', free, name) end
  if type(length) == 'number' then redis.pcall('PEXPIRE', free, 10000) end
end

-- seats_leave(seats, free, name): a name gives all its seats back, and wakes as many workers that wait for one. Both keys NULL: the queue has none. A key of
-- another type holds up no rescue, and the task of the sweeper tries again. Returns how many names did so.
local function seats_leave(seats, free, name)
  local value = seats and redis.pcall('HGET', seats, name)
  if type(value) ~= 'string' then return 0 end
  redis.call('HDEL', seats, name)
  if redis.call('HGET', seats, 'refused') then seats_wake(free, tonumber(value:match('^%d+')) or 0, name) end
  return 1
end

-- seats_keep(seats, name, value, old): a new name has these seats from its beginning, as its process had them under the old one ('': none). No error of
-- that key holds up a registration.
local function seats_keep(seats, name, value, old)
  redis.pcall('HSET', seats, name, value)
  redis.pcall('HDEL', seats, old)
  redis.pcall('PEXPIRE', seats, 86400000)
end
