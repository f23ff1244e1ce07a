-- KEYS: lease rescue ingress [notes]
-- ARGV: message instead [field note keep_ms]
-- notes: as in hand_back.lua.
redis.call('DEL', KEYS[1])
if redis.call('LINDEX', KEYS[2], 0) ~= ARGV[1] then return 0 end
local before = KEYS[4] and redis.call('HGET', KEYS[4], ARGV[3])
redis.call('RPUSH', KEYS[3], ARGV[2])
local noted = KEYS[4] and redis.pcall('HSET', KEYS[4], ARGV[3], ARGV[4])
local removed = type(noted) == 'table' and noted or redis.pcall('LPOP', KEYS[2])
if type(removed) == 'table' then            -- refused: the copy must not stay, nor what was noted
  redis.call('RPOP', KEYS[3])
  if before then redis.pcall('HSET', KEYS[4], ARGV[3], before) elseif KEYS[4] then redis.pcall('HDEL', KEYS[4], ARGV[3]) end
  return removed
end
if KEYS[4] then redis.pcall('PEXPIRE', KEYS[4], ARGV[5]) end
return 1
