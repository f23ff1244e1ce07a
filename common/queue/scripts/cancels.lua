-- KEYS: none cancels
-- ARGV: keep_ms ended_ms
-- Reads the orders to cancel messages: of each its field, its age in ms by this server's clock (below 0: the clock was set back), and its text behind the
-- time. Deletes those that are older than keep_ms, those with a result that is older than ended_ms, and those in another form.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local all, out, t = redis.call('HGETALL', KEYS[2]), {}, redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 1, #all, 2 do
  local at, text = string.match(all[i + 1], '^(%d+) (.*)$')
  local age, ended = at and now - at, text and string.sub(text, 1, 6) == 'ended '
  if not at or math.abs(age) > tonumber(ended and ARGV[2] or ARGV[1]) then
    redis.call('HDEL', KEYS[2], all[i])
  else
    out[#out + 1], out[#out + 2], out[#out + 3] = all[i], string.format('%.0f', age), text
  end
end
return out
