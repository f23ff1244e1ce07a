-- KEYS: lease escape log ingress [notes]
-- ARGV: message wrapped record_id [field note keep_ms]
-- notes: what is noted beside it from now on; nothing if note is empty.
redis.call('DEL', KEYS[1])
redis.call('LPUSH', KEYS[4], ARGV[2])
local removed = redis.pcall('LREM', KEYS[2], -1, ARGV[1])
if removed ~= 1 then                        -- not there, or refused: the copy must not stay
  redis.call('LPOP', KEYS[4])
  return removed
end
if ARGV[3] ~= '' then redis.pcall('XDEL', KEYS[3], ARGV[3]) end
if KEYS[5] and ARGV[5] == '' then
  redis.pcall('HDEL', KEYS[5], ARGV[4])
elseif KEYS[5] then
  redis.pcall('HSET', KEYS[5], ARGV[4], ARGV[5])
  redis.pcall('PEXPIRE', KEYS[5], ARGV[6])
end
return 1
