-- KEYS: escape log
-- ARGV: at len head tail sha1 [record_id]
-- Deletes a dead letter and its record. Of equal messages it deletes the newest, as record_id is the newest, too. Deletes nothing if the
-- record is gone: then the dead letter is an equal one, with a record of its own. A record that Redis refuses to delete stays: the message is
-- gone already. sha1: as in redrive.lua. Returns 1; 0: the message was not there; -1: the record was not there; -2: cannot tell.
if ARGV[6] and #redis.call('XRANGE', KEYS[2], ARGV[6], ARGV[6]) == 0 then return -1 end
local entry, answer = entry_named(KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4])
if not entry then return answer end
if ARGV[5] ~= '' and redis.sha1hex(entry) ~= ARGV[5] then return -2 end
local n = redis.call('LREM', KEYS[1], 1, entry)
if ARGV[6] and n == 1 then redis.pcall('XDEL', KEYS[2], ARGV[6]) end
return n
