-- KEYS: none stats rate
-- ARGV: keep_ms field n [field n ...]
-- What was done since the last time, to the totals and to this minute's.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
for i = 2, #ARGV, 2 do
  redis.call('HINCRBY', KEYS[2], ARGV[i], ARGV[i + 1])
  redis.call('HINCRBY', KEYS[3], ARGV[i], ARGV[i + 1])
end
redis.call('PEXPIRE', KEYS[3], ARGV[1])
return 1
