-- KEYS: lease tray ingress [notes]
-- ARGV: lease_ms message instead [field note keep_ms]
-- notes: what is remembered of a message that others may fetch, too, is noted beside it.
redis.call('PEXPIRE', KEYS[1], ARGV[1])
local before = KEYS[4] and redis.call('HGET', KEYS[4], ARGV[4])
redis.call('RPUSH', KEYS[3], ARGV[3])
local noted = KEYS[4] and redis.pcall('HSET', KEYS[4], ARGV[4], ARGV[5])
local removed = type(noted) == 'table' and noted or redis.pcall('LREM', KEYS[2], -1, ARGV[2])
if removed ~= 1 then                        -- not there, or refused: the copy must not stay, nor what was noted
  redis.call('RPOP', KEYS[3])
  if before then redis.pcall('HSET', KEYS[4], ARGV[4], before) elseif KEYS[4] then redis.pcall('HDEL', KEYS[4], ARGV[4]) end
  return removed
end
if KEYS[4] then redis.pcall('PEXPIRE', KEYS[4], ARGV[6]) end
return 1
