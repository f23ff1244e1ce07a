-- KEYS: none escape log claimed
-- ARGV: from message id [message id ...]
-- Removes dead letters with their records, each only if both are still there. Searches only the entries from `from`
-- (-3: the last three) to the end where the oldest are, never the whole list. Returns how many left.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local function at_end(message)
  for at = -1, tonumber(ARGV[1]), -1 do
    local entry = redis.call('LINDEX', KEYS[2], at)
    if entry == message or not entry then return entry end
  end
end
local gone = 0
for i = 2, #ARGV, 2 do
  if #redis.call('XRANGE', KEYS[3], ARGV[i + 1], ARGV[i + 1]) == 1 and at_end(ARGV[i]) then
    redis.call('LREM', KEYS[2], -1, ARGV[i])
    redis.call('XDEL', KEYS[3], ARGV[i + 1])
    redis.call('HDEL', KEYS[4], ARGV[i + 1])
    gone = gone + 1
  end
end
return gone
