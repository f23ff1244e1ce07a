-- KEYS: none ingress
-- ARGV: delete at len head tail
-- Moves a waiting message (shared/entry.lua) to the pop end, so that it is fetched next, or with delete '1' deletes it. Returns 1; 0: it is not
-- there; -2: cannot tell.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local entry, answer = entry_named(KEYS[2], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
if not entry then return answer end
if ARGV[1] == '1' then return redis.call('LREM', KEYS[2], -1, entry) end
local refused = transfer({ 'LREM', KEYS[2], 1, entry }, { 'RPUSH', KEYS[2], entry })     -- from the other end: the copy only if it is the only one
return refused or redis.call('LINDEX', KEYS[2], -1) == entry and 1 or 0
