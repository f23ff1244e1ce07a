-- KEYS: lease tray ingress cancels [notes]
-- ARGV: lease_ms at len head tail line strip side cancelled order result [field note keep_ms]
-- Moves a message (shared/entry.lua) from the tray back to the pop end of ingress, or with side L to its push end, with line in place of its
-- first `strip` bytes. With notes (shared queues), writes the note under `field`, and keeps the notes for keep_ms from then on, since nothing may stand
-- before a message that other programs fetch, too.
-- The result of an order to cancel it is written with the move (shared/cancelled.lua).
-- The lease counts this message among those that left the tray alive (done.lua). Returns 1; 0: it was not there; -2: cannot tell.
local leased = redis.call('PEXPIRE', KEYS[1], ARGV[1])
local entry, answer = entry_named(KEYS[2], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
if not entry then return answer end
local push = { ARGV[8] == 'L' and 'LPUSH' or 'RPUSH', KEYS[3], changed(entry, ARGV[6], ARGV[7]) }
local puts = { push, cancelled(KEYS[4], ARGV[9], ARGV[10], ARGV[11]) }
if KEYS[5] then puts[#puts + 1] = { 'HSET', KEYS[5], ARGV[12], ARGV[13] } end
local refused = transfer({ 'LREM', KEYS[2], -1, entry }, unpack(puts))
if refused then return refused end
if KEYS[5] then redis.pcall('PEXPIRE', KEYS[5], ARGV[14]) end
if leased == 1 then redis.pcall('HINCRBY', KEYS[1], KEYS[2], 1) end
return 1
