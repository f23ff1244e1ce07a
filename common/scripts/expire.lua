-- KEYS: none ingress escape log
-- ARGV: message strip at line mark_at [field value ...]
-- message escapes if it is still to the right of the entry that begins with line and was at mark_at: at the pop end, if at
-- is -1, else as far from that entry as it was. Others may have popped some meanwhile. Returns as escape.lua.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local popped
for i = 0, math.min(16, -1 - ARGV[5]) do
  local entry = redis.call('LINDEX', KEYS[2], ARGV[5] + i)
  if entry and string.sub(entry, 1, #ARGV[4]) == ARGV[4] then popped = i break end
end
if not popped then return 0 end
local at = ARGV[3] == '-1' and -1 or ARGV[3] + popped
if at > -1 or at < ARGV[5] + popped or redis.call('LINDEX', KEYS[2], at) ~= ARGV[1] then return 0 end
redis.call('LPUSH', KEYS[3], string.sub(ARGV[1], ARGV[2] + 1))
local removed = redis.pcall('LREM', KEYS[2], -1, ARGV[1])
if removed ~= 1 then                        -- refused: the copy must not stay
  redis.call('LPOP', KEYS[3])
  return removed
end
if ARGV[6] then
  local id = redis.pcall('XADD', KEYS[4], '*', unpack(ARGV, 6))
  if type(id) == 'table' then return 2 end
end
return 1
