-- This text is put before the script that each connection runs first (LAYOUT in common/queue/scripts.h). key holds two numbers: the layout of the keys,
-- and the lowest layout of a program that may use them. layout_refuses() returns why a program that writes `own`, lets `lowest` work beside it and
-- understands `reads` may not use the keys; false: it may, and with `write` the numbers are raised to those of the program. Without the
-- key, keys with a secret are of layout 2, that of the first release. `none` never exists: DEL is a first write that maxmemory allows.
local function layout_refuses(key, secret, none, own, lowest, reads, write)
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'string' and kind ~= 'none' then
    return redis.error_reply('SCHEMA ' .. key .. ' is a ' .. kind .. ', not a string: rename or remove it')
  end
  local there = redis.call('GET', key)
  local text = there or (redis.call('EXISTS', secret) == 1 and '2 2') or own .. ' ' .. lowest
  local layout, needs = string.match(text .. ' ', '^(%d+) (%d+) ')
  if not layout or #layout > 9 or #needs > 9 then
    return redis.error_reply('SCHEMA ' .. key .. ' does not hold two numbers, the layout of the keys and the lowest that may use them')
  end
  layout, needs, own, lowest = tonumber(layout), tonumber(needs), tonumber(own), tonumber(lowest)
  if own < needs or layout < tonumber(reads) then
    return redis.error_reply(string.format('SCHEMA the keys in Redis have layout %d for programs of layout %d or later (%s); ' ..
      'this program has layout %d, and understands %d or later', layout, needs, key, own, reads))
  end
  local raised = string.format('%d %d', math.max(layout, own), math.max(needs, lowest))
  if write and raised ~= there then
    redis.call('DEL', none)
    redis.call('SET', key, raised)
  end
  return false
end
