-- KEYS: none stats rate
-- ARGV: keep_ms names field n [field n ...]
-- Adds figures to the totals and to those of this minute. A field class:NAME that is one too many counts as class:other. The caller adds
-- all of them again after an error, so nothing is added if Redis refuses one of the keys.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
redis.call('HGET', KEYS[3], 'classes')
local classes = tonumber(redis.call('HGET', KEYS[2], 'classes')) or 0
local function counted_as(field)
  if string.sub(field, 1, 6) ~= 'class:' or field == 'class:other' or redis.call('HGET', KEYS[2], field) then return field end
  if classes >= tonumber(ARGV[2]) then return 'class:other' end
  add(KEYS[2], 'classes', 1)
  classes = classes + 1
  return field
end
for i = 3, #ARGV, 2 do
  local field = counted_as(ARGV[i])
  add(KEYS[2], field, ARGV[i + 1])
  add(KEYS[3], field, ARGV[i + 1])
end
redis.call('PEXPIRE', KEYS[3], ARGV[1])
return 1
