-- KEYS: none delayed escape log apart
-- ARGV: message strip [field value ...]
-- Moves a message to escape if it is still delayed. Returns as escape.lua; 0 also if its payload was stored apart and is gone (due.lua deletes
-- the rest).
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local line, letter = string.sub(ARGV[1], 1, ARGV[2]), string.sub(ARGV[1], ARGV[2] + 1)
local payload, other = payload_apart(KEYS[5], line)
if payload == false then return 0 end
local member = payload == letter and not other and line or ARGV[1]
local refused = transfer({ 'ZREM', KEYS[2], member }, { 'LPUSH', KEYS[3], letter })
if refused then return refused end
delete_apart(KEYS[5], member)
return write_record(KEYS[4], { unpack(ARGV, 3) })
