-- KEYS: lease source escape log cancels [notes]
-- ARGV: lease_ms at len head tail count line strip note cancelled order result keep [field value ...]
-- Moves a message (shared/entry.lua) from source to escape with line in place of its first `strip` bytes, deletes its note, and writes its
-- record from the fields. count: as for LREM. keep: if 1, the last field of the record gets the message as its value, so that it need
-- not come back to Redis. The result of an order to cancel the message is written with the move (shared/cancelled.lua).
-- The lease counts this message among those that left the tray alive (done.lua).
-- Returns 1; 2: escaped, but the record could not be written; 0: the message was not in source; -2: cannot tell.
local leased = redis.call('PEXPIRE', KEYS[1], ARGV[1])
local entry, answer = entry_named(KEYS[2], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
if not entry then return answer end
local message = changed(entry, ARGV[7], ARGV[8])
local refused = transfer({ 'LREM', KEYS[2], ARGV[6], entry }, { 'LPUSH', KEYS[3], message }, cancelled(KEYS[5], ARGV[10], ARGV[11], ARGV[12]))
if refused then return refused end
if leased == 1 then redis.pcall('HINCRBY', KEYS[1], KEYS[2], 1) end
if KEYS[6] then redis.pcall('HDEL', KEYS[6], ARGV[9]) end
local record = { unpack(ARGV, 14) }
if ARGV[13] == '1' then record[#record] = message end
return write_record(KEYS[4], record)
