-- KEYS: escape log
-- ARGV: message [record_id]
-- The newest of equal messages goes, as its record is the newest too. The record goes also if its message is gone.
local n = redis.call('LREM', KEYS[1], 1, ARGV[1])
if ARGV[2] then redis.call('XDEL', KEYS[2], ARGV[2]) end
return n
