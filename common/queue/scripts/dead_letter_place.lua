-- KEYS: list
-- ARGV: entry
-- Returns the index, from the right, of the oldest entry with this value; 0: it is not there; 1: this Redis cannot tell (LPOS).
local at = redis.pcall('LPOS', KEYS[1], ARGV[1], 'RANK', -1)
if type(at) == 'table' then return 1 end
return at and at - redis.call('LLEN', KEYS[1]) or 0
