-- KEYS: lease ingress tray
-- ARGV: lease_ms
redis.call('PEXPIRE', KEYS[1], ARGV[1])     -- Redis executes this at maxmemory, and then the rest, too
return redis.call('RPOPLPUSH', KEYS[2], KEYS[3])
