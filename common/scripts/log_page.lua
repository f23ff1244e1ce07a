-- KEYS: log
-- ARGV: start count
-- Ids and sha1 of the records from start on, oldest first: id sha1 id sha1 ... The whole records stay here.
local out = {}
for _, record in ipairs(redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])) do
  local sha1 = ''
  for i = 1, #record[2], 2 do
    if record[2][i] == 'sha1' then sha1 = record[2][i + 1] end
  end
  out[#out + 1] = record[1]
  out[#out + 1] = sha1
end
return out
