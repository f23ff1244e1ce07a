-- KEYS: none escape log
-- ARGV: from message field value [field value ...]
-- A dead letter without a record gets one. It becomes the newest, as its record is: so both stay in one order.
-- Where it may be: as in letters_remove.lua. Returns 1; 0: it is not there.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
for at = -1, tonumber(ARGV[1]), -1 do
  local entry = redis.call('LINDEX', KEYS[2], at)
  if not entry then return 0 end
  if entry == ARGV[2] then
    redis.call('XADD', KEYS[3], '*', unpack(ARGV, 3))
    redis.call('LPUSH', KEYS[2], entry)
    local removed = redis.pcall('LREM', KEYS[2], -1, entry)
    if removed ~= 1 then redis.call('LPOP', KEYS[2]) end    -- refused: the copy must not stay
    return removed
  end
end
return 0
