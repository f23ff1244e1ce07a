-- KEYS: none escape log
-- ARGV: from message newest field value [field value ...]
-- Adds a record for a dead letter that has none. The dead letter becomes the newest, as its record is, so that list and log stay in one order. from:
-- as in dead_letters_remove.lua. newest: the id of the newest record. If another record is the newest, it was written since the caller looked,
-- perhaps for this dead letter, and the script changes nothing. So a second call does no harm, also if Redis executes the first one after it.
-- Returns the id of the record; '': the dead letter is not there, or may have a record.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
if (redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1] or { '0-0' })[1] ~= ARGV[3] then return '' end
for at = -1, tonumber(ARGV[1]), -1 do
  local entry = redis.call('LINDEX', KEYS[2], at)
  if not entry then return '' end
  if entry == ARGV[2] then
    local id = redis.call('XADD', KEYS[3], '*', unpack(ARGV, 4))
    redis.call('LPUSH', KEYS[2], entry)
    local removed = redis.pcall('LREM', KEYS[2], -1, entry)
    if removed == 1 then return id end
    redis.call('LPOP', KEYS[2])             -- refused: the copy must not stay
    return removed
  end
end
return ''
