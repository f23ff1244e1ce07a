-- seats_read(seats, name, first): the seats of other names, of this one, and the marks. Earlier names of its process, from `first` on, end. Fields of any
-- other form count for nothing.
local function seats_read(seats, name, first)
  local others, had, marks, all = 0, 0, { limit = false, server = false, refused = false }, redis.call('HGETALL', seats)
  local process, own = name:match('^(.*%.)(%d+)$')
  for i = 1, #all, 2 do
    local field, value = all[i], all[i + 1]
    if field == name then had = tonumber(value:match('^%d+')) or 0
    elseif marks[field] ~= nil then marks[field] = value
    elseif field:find('.%.%x+%.%d+%.%d+$') then
      local generation = field:sub(1, #process) == process and tonumber(field:sub(#process + 1))
      if generation and generation >= first and generation < tonumber(own) then redis.call('HDEL', seats, field)
      else others = others + (tonumber(value:match('^(%d+) %S+$')) or 0) end
    end
  end
  return others, had, marks
end

-- seats_refused(seats, free, now, name): leaves the mark. The list that tells of free seats goes: they are taken.
local function seats_refused(seats, free, now, name)
  redis.call('HSET', seats, 'refused', string.format('%.0f %s', now, name))
  if redis.call('TYPE', free).ok == 'list' then redis.call('DEL', free) end
end
