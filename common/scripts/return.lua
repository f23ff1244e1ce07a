-- KEYS: lease rescue ingress [notes]
-- ARGV: at len head tail line strip [field note keep_ms]
-- Moves a message of a dead owner from the left end of rescue to the pop end of ingress. at starts with 0, the index of that end
-- (entry.lua). line, strip and notes: as in hand_back.lua. Returns 1; 0: the message was not in rescue.
redis.call('DEL', KEYS[1])
local entry = entry_named(KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4])
if not entry then return 0 end
local before = KEYS[4] and redis.call('HGET', KEYS[4], ARGV[7])
redis.call('RPUSH', KEYS[3], changed(entry, ARGV[5], ARGV[6]))
local noted = KEYS[4] and redis.pcall('HSET', KEYS[4], ARGV[7], ARGV[8])
local removed = type(noted) == 'table' and noted or redis.pcall('LREM', KEYS[2], 1, entry)
if removed ~= 1 then                        -- refused: the copy must not stay, nor what was noted
  redis.call('RPOP', KEYS[3])
  if before then redis.pcall('HSET', KEYS[4], ARGV[7], before) elseif KEYS[4] then redis.pcall('HDEL', KEYS[4], ARGV[7]) end
  return removed
end
if KEYS[4] then redis.pcall('PEXPIRE', KEYS[4], ARGV[9]) end
return 1
