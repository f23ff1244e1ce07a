-- KEYS: none delayed ingress apart
-- ARGV: all limit bytes plain [line ours ...]
-- Moves messages that are due (all '1': any) from delayed to ingress; plain '1': without our lines, which only the caller's word makes ours. Returns
-- for each how many ms it was late; -1: its payload is gone (shared/apart.lua), it was deleted. Then -2: some stayed for an unseen line; -3 - ms to the next.
local t, rank, room, lates, seen, wait = redis.call('TIME'), 0, tonumber(ARGV[3]), {}, {}, nil
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 5, #ARGV, 2 do seen[ARGV[i]] = ARGV[i + 1] end
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
while #lates + rank < tonumber(ARGV[2]) and room > 0 do
  local member, due = unpack(redis.call('ZRANGE', KEYS[2], rank, rank, 'WITHSCORES'))
  wait = member and ARGV[1] ~= '1' and tonumber(due) > now and math.ceil(math.min(due - now, 1e9))
  if not member or wait then break end
  local line, ours = (ARGV[4] == '1' or list_apart(KEYS[4], member)) and string.match(string.sub(member, 1, 1024), '^quredis/1 w=[^\n]*\n')
  ours, room = line and seen[line] == '1', room - #member
  if line and not seen[line] then rank = rank + 1
  else
    local payload, other = payload_apart(KEYS[4], line and member or '')
    if not (ours or payload) then payload = nil end           -- a line whose seal the caller cannot verify leaves with its payload, if it has one
    local entry = other and payload or member .. (payload or '')
    if ours and ARGV[4] == '1' and not other then entry = string.sub(entry, #line + 1) end
    local refused = transfer({ 'ZREMRANGEBYRANK', KEYS[2], rank, rank }, payload ~= false and { 'LPUSH', KEYS[3], entry } or nil)
    if refused then return refused end
    if ours or payload then delete_apart(KEYS[4], member) end
    room = room - #(payload or '')
    lates[#lates + 1] = payload == false and -1 or math.max(0, math.min(now - due, 1e15))
  end
end
if rank > 0 then lates[#lates + 1] = -2 end
if wait then lates[#lates + 1] = -3 - wait end
return lates
