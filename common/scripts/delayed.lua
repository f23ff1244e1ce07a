-- This text is put before due.lua and hurry.lua (DELAYED in common/queue_scripts.h). take_delayed() moves the messages that are due at
-- until_ms from delayed to ingress, the first one first. It looks at `limit` messages at most, and at none after it has read `bytes`, so
-- that large ones do not block Redis for long. plain: drops the lines of quredis, since other programs fetch from ingress, too. The caller
-- passes the lines that it has seen, each with ours '1' if it is one of quredis; a message with another such line stays in delayed.
-- Returns the times at which the moved messages were due; or the error of Redis.
local function take_delayed(until_ms)
  local rank, room, times, seen = 0, tonumber(ARGV[2]), {}, {}
  for i = 4, #ARGV, 2 do seen[ARGV[i]] = ARGV[i + 1] end
  redis.call('DEL', KEYS[1])                -- never there: a first write that maxmemory allows
  while #times + rank < tonumber(ARGV[1]) and room > 0 do
    local message, due = unpack(redis.call('ZRANGE', KEYS[2], rank, rank, 'WITHSCORES'))
    if not message or tonumber(due) > until_ms then break end
    room = room - #message
    local line = ARGV[3] and string.match(string.sub(message, 1, 1024), '^quredis/1 w=[^\n]*\n')
    if line and not seen[line] then
      rank = rank + 1
    else
      redis.call('LPUSH', KEYS[3], line and seen[line] == '1' and string.sub(message, #line + 1) or message)
      local removed = redis.pcall('ZREMRANGEBYRANK', KEYS[2], rank, rank)
      if removed ~= 1 then                  -- refused: the copy must not stay
        redis.call('LPOP', KEYS[3])
        return removed
      end
      times[#times + 1] = due
    end
  end
  return times
end
