-- KEYS: escape log claimed
-- ARGV: none
-- Returns the number of dead letters, the number of records, the id of the oldest record ("": none), the time, and the
-- node whose archive has claimed dead letters ("": none).
local first = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
local t = redis.call('TIME')
return { redis.call('LLEN', KEYS[1]), redis.call('XLEN', KEYS[2]), first and first[1] or '',
  t[1] * 1000 + math.floor(t[2] / 1000),
  redis.call('HGET', KEYS[3], 'owner') or '' }
