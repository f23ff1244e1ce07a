-- KEYS: lease tray delayed
-- ARGV: lease_ms message wrapped delay_ms
redis.call('PEXPIRE', KEYS[1], ARGV[1])
local t = redis.call('TIME')
local due = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[4]
local added = redis.call('ZADD', KEYS[3], 'NX', string.format('%.0f', due), ARGV[3])
local removed = redis.pcall('LREM', KEYS[2], -1, ARGV[2])
if removed ~= 1 then                        -- not there, or refused: what this call added must not stay
  if added == 1 then redis.call('ZREM', KEYS[3], ARGV[3]) end
  return removed
end
return 1
