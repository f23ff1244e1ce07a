-- KEYS: none escape log
-- ARGV: from message since field value [field value ...]
-- A dead letter without a record gets one. It becomes the newest, as its record is: so both stay in one order.
-- Where it may be: as in letters_remove.lua. since: when the server was asked which dead letters have no record, in ms. A record that was
-- written from then on may be its record: then, and if there are too many such records to tell, nothing changes. So a second call does no harm,
-- also if Redis executes the first one after it. Returns 1; 0: it is not there, or may have a record.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local most = 20
local function sha1_of(fields, first)
  for i = first, #fields, 2 do
    if fields[i] == 'sha1' then return fields[i + 1] end
  end
end
local newer = redis.call('XRANGE', KEYS[3], ARGV[3], '+', 'COUNT', most)
if #newer == most then return 0 end
for _, record in ipairs(newer) do
  if sha1_of(record[2], 1) == sha1_of(ARGV, 4) then return 0 end
end
for at = -1, tonumber(ARGV[1]), -1 do
  local entry = redis.call('LINDEX', KEYS[2], at)
  if not entry then return 0 end
  if entry == ARGV[2] then
    redis.call('XADD', KEYS[3], '*', unpack(ARGV, 4))
    redis.call('LPUSH', KEYS[2], entry)
    local removed = redis.pcall('LREM', KEYS[2], -1, entry)
    if removed ~= 1 then redis.call('LPOP', KEYS[2]) end    -- refused: the copy must not stay
    return removed
  end
end
return 0
