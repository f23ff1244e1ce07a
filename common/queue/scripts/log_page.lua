-- KEYS: log
-- ARGV: start count field [field ...]
-- Returns the ids and these fields of the records from start on, oldest first: id field ... id field ... The other fields
-- do not leave Redis.
local out = {}
for _, record in ipairs(redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])) do
  local fields = {}
  for i = 1, #record[2], 2 do fields[record[2][i]] = record[2][i + 1] end
  out[#out + 1] = record[1]
  for i = 3, #ARGV do out[#out + 1] = fields[ARGV[i]] or '' end
end
return out
