-- KEYS: done
-- ARGV: before limit
-- Removes the oldest entries of the history up to the time `before` (ms), at most `limit`. Returns how many.
local old = redis.call('XRANGE', KEYS[1], '-', ARGV[1], 'COUNT', ARGV[2])
if #old == 0 then return 0 end
for i, entry in ipairs(old) do old[i] = entry[1] end
redis.call('XDEL', KEYS[1], unpack(old))
if redis.call('XLEN', KEYS[1]) == 0 then redis.call('DEL', KEYS[1]) end
return #old
