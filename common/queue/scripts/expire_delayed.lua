-- KEYS: none delayed escape log apart
-- ARGV: message strip [field value ...]
-- Moves a message to escape if it is still delayed. Returns as escape.lua; 0 also if its payload was stored apart and is gone (due.lua deletes
-- the rest).
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local line, letter = string.sub(ARGV[1], 1, ARGV[2]), string.sub(ARGV[1], ARGV[2] + 1)
local payload, other = payload_apart(KEYS[5], line)
if payload == false then return 0 end
local member = payload == letter and not other and line or ARGV[1]
redis.call('LPUSH', KEYS[3], letter)
local removed = redis.pcall('ZREM', KEYS[2], member)
if removed ~= 1 then                        -- not there, or refused: the copy must not stay
  redis.call('LPOP', KEYS[3])
  return removed
end
delete_apart(KEYS[5], member)
return write_record(KEYS[4], { unpack(ARGV, 3) })
