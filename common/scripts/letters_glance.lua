-- KEYS: escape log
-- ARGV: none
-- How many dead letters and records there are, the oldest record's id ("": none), the time.
local first = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
local t = redis.call('TIME')
return { redis.call('LLEN', KEYS[1]), redis.call('XLEN', KEYS[2]), first and first[1] or '',
  t[1] * 1000 + math.floor(t[2] / 1000) }
