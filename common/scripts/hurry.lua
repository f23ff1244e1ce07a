-- KEYS: lease delayed ingress
-- ARGV: limit bytes [plain [line ours ...]]
-- Moves messages from delayed to ingress as due.lua does, also those that are not due yet. ARGV: as there. Returns how many were moved.
local room, rank, moved, seen = tonumber(ARGV[2]), 0, 0, {}
for i = 4, #ARGV, 2 do seen[ARGV[i]] = ARGV[i + 1] end
redis.call('DEL', KEYS[1])
while moved + rank < tonumber(ARGV[1]) and room > 0 do
  local message = redis.call('ZRANGE', KEYS[2], rank, rank)[1]
  if not message then break end
  room = room - #message
  local line = ARGV[3] and string.match(string.sub(message, 1, 1024), '^quredis/1 w=[^\n]*\n')
  if line and not seen[line] then
    rank = rank + 1
  else
    redis.call('LPUSH', KEYS[3], line and seen[line] == '1' and string.sub(message, #line + 1) or message)
    local removed = redis.pcall('ZREMRANGEBYRANK', KEYS[2], rank, rank)
    if removed ~= 1 then                    -- refused: the copy must not stay
      redis.call('LPOP', KEYS[3])
      return removed
    end
    moved = moved + 1
  end
end
return moved
