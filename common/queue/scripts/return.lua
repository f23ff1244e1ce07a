-- KEYS: lease rescue ingress [notes]
-- ARGV: at len head tail line strip [field note keep_ms]
-- Moves a message of a dead owner from the left end of rescue to the pop end of ingress. at starts with 0, the index of that end
-- (shared/entry.lua). line, strip and notes: as in hand_back.lua. Returns 1; 0: it was not there; -2: cannot tell.
redis.call('DEL', KEYS[1])
local entry, answer = entry_named(KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4])
if not entry then return answer end
local push = { 'RPUSH', KEYS[3], changed(entry, ARGV[5], ARGV[6]) }
local refused = transfer({ 'LREM', KEYS[2], 1, entry }, push, KEYS[4] and { 'HSET', KEYS[4], ARGV[7], ARGV[8] })
if not refused and KEYS[4] then redis.pcall('PEXPIRE', KEYS[4], ARGV[9]) end
return refused or 1
