-- KEYS: none pushed ingress
-- ARGV: all limit bytes least full
-- Moves messages that are due (all '1': any) from the sorted set where producers delay their pushes to the left end of ingress,
-- as pushes: in the order of their times, which are Unix seconds. Members and scores are a producer's bytes: no line before a
-- message has a meaning here, a time of +inf never comes, and one of -inf is past. Moves `limit` messages at most, stops after
-- `bytes`, and fills ingress up to `full` messages, so that what comes there does not wait behind all of these; but moves
-- `least` in any case. Returns for each that left how many ms it was late; at the end -2: a due one stayed, since ingress is full; or -3 - ms: in so many the
-- next one is due.
local t, room, lates = redis.call('TIME'), tonumber(ARGV[3]), {}
local now = t[1] + t[2] / 1e6
local most = math.max(tonumber(ARGV[4]), ARGV[5] - redis.call('LLEN', KEYS[3]))
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
while #lates < tonumber(ARGV[2]) and room > 0 do
  local member, due = unpack(redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES'))
  local late = member and now - (tonumber(due) or due == '-inf' and -math.huge or math.huge)
  if not member then break end
  if late < 0 and ARGV[1] ~= '1' then
    lates[#lates + 1] = -3 - math.ceil(math.min(-late * 1000, 1e9))
    break
  end
  if #lates >= most then
    lates[#lates + 1] = -2
    break
  end
  local refused = transfer({ 'ZREMRANGEBYRANK', KEYS[2], 0, 0 }, { 'LPUSH', KEYS[3], member })
  if refused then return refused end
  room = room - #member
  lates[#lates + 1] = math.floor(math.max(0, math.min(late * 1000, 1e15)))
end
return lates
