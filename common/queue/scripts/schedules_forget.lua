-- KEYS: schedules
-- ARGV: between(ms) looks name ...
-- Deletes the records of schedules that no host has had for so many looks, each so many ms after the last. What the caller has is named. A mark
-- LOOKS WHEN of a record that it lacks is the field "-NAME", which is no name of a schedule. It counts looks, not time: so neither an outage nor a
-- clock that is set forward deletes a record, and a host that has the schedule deletes the mark. Returns how many records it deleted.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local between, looks, n = tonumber(ARGV[1]), tonumber(ARGV[2]), 0
local has = {}
for i = 3, #ARGV do has[ARGV[i]] = true end
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
  local mark = '-' .. name
  if has[name] then
    redis.call('HDEL', KEYS[1], mark)
  elseif string.sub(name, 1, 1) ~= '-' then
    local count, when = string.match(redis.call('HGET', KEYS[1], mark) or '', '^(%d+) (%d+)$')
    count, when = tonumber(count or 0), tonumber(when or 0)
    if math.abs(now - when) >= between then
      count = count + 1
      redis.call('HSET', KEYS[1], mark, string.format('%.0f %.0f', count, now))
    end
    if count >= looks then
      n = n + 1
      redis.call('HDEL', KEYS[1], name, mark)
    end
  end
end
return n
