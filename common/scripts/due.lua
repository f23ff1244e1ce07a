-- KEYS: lease delayed ingress
-- ARGV: limit bytes [plain [line ours ...]]
-- Moves messages that are due from delayed to ingress. Looks at `limit` messages at most, and at none after it has read `bytes`, so that
-- large ones do not block Redis for long. plain: drops the lines of quredis, since other programs fetch from ingress, too. The caller
-- passes the lines that it has seen, each with ours '1' if it is one of quredis; a message with another such line stays in delayed.
-- Returns for each message that was moved how many ms it was late.
local t, room, rank, late, seen = redis.call('TIME'), tonumber(ARGV[2]), 0, {}, {}
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 4, #ARGV, 2 do seen[ARGV[i]] = ARGV[i + 1] end
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
while #late + rank < tonumber(ARGV[1]) and room > 0 do
  local message, due = unpack(redis.call('ZRANGE', KEYS[2], rank, rank, 'WITHSCORES'))
  if not message or tonumber(due) > now then break end
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
    late[#late + 1] = math.min(now - due, 1e15)
  end
end
return late
