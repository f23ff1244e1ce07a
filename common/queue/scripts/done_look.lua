-- KEYS: done
-- ARGV: from before limit
-- Reads the history from the id `from` on, at most `limit` entries, up to the time `before` (ms). Returns the ids of entry
-- and message in turn.
local old = {}
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[2], 'COUNT', ARGV[3])) do
  old[#old + 1] = entry[1]
  old[#old + 1] = entry[2][1] == 'id' and entry[2][2] or ''
end
return old
