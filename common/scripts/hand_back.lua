-- KEYS: lease tray ingress
-- ARGV: lease_ms message instead
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('RPUSH', KEYS[3], ARGV[3])
if redis.call('LREM', KEYS[2], -1, ARGV[2]) == 0 then
  redis.call('RPOP', KEYS[3])
  return 0
end
return 1
