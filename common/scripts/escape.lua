-- KEYS: lease source escape log [notes]
-- ARGV: lease_ms message count strip note [field value ...]
-- Returns 1; 2: escaped, but the record could not be written; 0: the message was not in source. note is forgotten.
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('LPUSH', KEYS[3], string.sub(ARGV[2], ARGV[4] + 1))
local removed = redis.pcall('LREM', KEYS[2], ARGV[3], ARGV[2])
if removed ~= 1 then                        -- not there, or refused: the copy must not stay, or each try adds one
  redis.call('LPOP', KEYS[3])
  return removed
end
if KEYS[5] then redis.pcall('HDEL', KEYS[5], ARGV[5]) end
if ARGV[6] then
  local id = redis.pcall('XADD', KEYS[4], '*', unpack(ARGV, 6))
  if type(id) == 'table' then return 2 end
end
return 1
