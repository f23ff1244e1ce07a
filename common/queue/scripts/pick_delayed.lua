-- KEYS: none delayed|pushed ingress [apart]
-- ARGV: delete rank due len head strip
-- Moves the delayed message at `rank` to the pop end of ingress, so that it is fetched next, or with delete '1' deletes it. Does so only if it
-- is the one that the caller saw: due then, and with its payload (shared/apart.lua) `len` bytes that begin with head. Drops its first `strip` bytes.
-- Returns 1; 0: another message is at that place; -1: its payload is gone, so only its line could be deleted.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local member, due = unpack(redis.call('ZRANGE', KEYS[2], ARGV[2], ARGV[2], 'WITHSCORES'))
if due ~= ARGV[3] then return 0 end
local payload, other
if KEYS[4] then payload, other = payload_apart(KEYS[4], member) end
local entry = payload and member .. payload or member
if #entry ~= tonumber(ARGV[4]) or string.sub(entry, 1, #ARGV[5]) ~= ARGV[5] then return 0 end
local keeps = ARGV[1] ~= '1'
if keeps and payload == false then return -1 end
local push = { 'RPUSH', KEYS[3], other and payload or string.sub(entry, ARGV[6] + 1) }
local refused = transfer({ 'ZREMRANGEBYRANK', KEYS[2], ARGV[2], ARGV[2] }, keeps and push or nil)
if refused then return refused end
if KEYS[4] then delete_apart(KEYS[4], member) end
return 1
