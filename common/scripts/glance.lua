-- KEYS: list
-- ARGV: first last LRANGE|ZRANGE
-- What each of these entries begins with, as far as it may be a line of ours; then how many bytes they are in all, and
-- the time.
local entries, bytes, t = redis.call(ARGV[3], KEYS[1], ARGV[1], ARGV[2]), 0, redis.call('TIME')
for i, entry in ipairs(entries) do
  bytes = bytes + #entry
  entries[i] = string.sub(entry, 1, 10) == 'quredis/1 ' and string.sub(entry, 1, 2048) or ''
end
entries[#entries + 1] = tostring(bytes)
entries[#entries + 1] = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
return entries
