-- KEYS: lease ingress tray
-- ARGV: lease_ms
redis.call('PEXPIRE', KEYS[1], ARGV[1])     -- so that it runs at maxmemory, where RPOPLPUSH alone does not
return redis.call('RPOPLPUSH', KEYS[2], KEYS[3])
