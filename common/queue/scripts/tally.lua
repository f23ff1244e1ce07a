-- KEYS: none stats rate
-- ARGV: keep_ms field n [field n ...]
-- Adds figures to the totals and to those of this minute.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
for i = 2, #ARGV, 2 do
  redis.call('HINCRBY', KEYS[2], ARGV[i], ARGV[i + 1])
  redis.call('HINCRBY', KEYS[3], ARGV[i], ARGV[i + 1])
end
redis.call('PEXPIRE', KEYS[3], ARGV[1])
return 1
