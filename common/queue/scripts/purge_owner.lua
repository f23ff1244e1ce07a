-- KEYS: lease tray0 tray1 tray2 rescue
-- ARGV: force
-- Deletes the trays of an owner. Returns the number of messages; -1: the owner has a lease, and nothing was deleted.
if ARGV[1] ~= '1' and redis.call('EXISTS', KEYS[1]) == 1 then return -1 end
local n = 0
for i = 2, #KEYS do n = n + redis.call('LLEN', KEYS[i]) end
for i = 2, #KEYS do redis.call('UNLINK', KEYS[i]) end
return n
