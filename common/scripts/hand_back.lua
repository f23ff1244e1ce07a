-- KEYS: lease tray ingress
-- ARGV: lease_ms message instead
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('RPUSH', KEYS[3], ARGV[3])
local removed = redis.pcall('LREM', KEYS[2], -1, ARGV[2])
if removed ~= 1 then                        -- not there, or refused: the copy must not stay
  redis.call('RPOP', KEYS[3])
  return removed
end
return 1
