-- KEYS: unique ingress
-- ARGV: for_ms command id message
-- Pushes a message, unless one with the same key was pushed in the time for which that key is kept. for_ms 0: only looks, and fails if
-- ingress is no list. The key says when the message was pushed, in ms since 1970, and its id, behind a space; producers may write anything there. Returns 1:
-- pushed, or it would be; else 0, what the key says, and for how many ms more (-1: without an end). The key comes first, since Redis checks for_ms, and a
-- producer may take it back, but no message.
local found = redis.call('GET', KEYS[1])
if found then return { 0, found, redis.call('PTTL', KEYS[1]) } end
if ARGV[1] == '0' then
    local seen = redis.pcall('LLEN', KEYS[2])           -- no right to it says nothing
    return type(seen) == 'table' and string.find(seen.err, 'WRONGTYPE', 1, true) and seen or { 1 }
end
local t = redis.call('TIME')
local value = string.format('%d%s', t[1] * 1000 + math.floor(t[2] / 1000), ARGV[3] == '' and '' or ' ' .. ARGV[3])
redis.call('SET', KEYS[1], value, 'PX', ARGV[1])
local pushed = redis.pcall(ARGV[2], KEYS[2], ARGV[4])
if type(pushed) ~= 'table' then return { 1 } end
local removed = redis.pcall('DEL', KEYS[1])
if type(removed) == 'table' then redis.call('SET', KEYS[1], value, 'PX', 1) end      -- without the right to DEL
return pushed
