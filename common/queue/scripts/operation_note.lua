-- KEYS: none operations redriven:id
-- ARGV: id holder hold_ms|end keep_ms done [field value]
-- Stores a field of the operation `id`, and holds it for hold_ms from now on; 0: gives it up. end: forgets it, which messages it moved back, and results of
-- other operations that are older than a day; the field stays. done: how many are done, as holder knows; if it is another number, Redis went back to an earlier
-- state. '': any number. Returns 1; 2: an operator wants it to stop; 0: holder does not hold it any more, or Redis went back, and nothing changes.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local function get(field) return redis.call('HGET', KEYS[2], ARGV[1] .. ':' .. field) end
if get('holder') ~= ARGV[2] or ARGV[5] ~= '' and (get('done') or '0') ~= ARGV[5] then return 0 end
local t = redis.call('TIME')
local function set(field, value) redis.call('HSET', KEYS[2], ARGV[1] .. ':' .. field, value) end
if ARGV[3] == 'end' then
  for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
    local at = string.sub(field, -7) == ':result' and (tonumber(string.match(redis.call('HGET', KEYS[2], field), '^%d+')) or 0)
    if string.sub(field, 1, #ARGV[1] + 1) == ARGV[1] .. ':' or at and at < (t[1] - 86400) * 1000 then redis.call('HDEL', KEYS[2], field) end
  end
  redis.call('DEL', KEYS[3])
end
local stops = get('wanted') == 'stop'
if ARGV[6] then set(ARGV[6], ARGV[7]) end
if ARGV[3] == 'end' then
  redis.call('PEXPIRE', KEYS[2], redis.call('HLEN', KEYS[2]) == 1 and math.min(ARGV[4], 86400000) or ARGV[4])
  return 1
end
set('held', string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[3]))
if ARGV[3] == '0' then set('holder', '') end
if ARGV[3] == '0' and stops then set('wanted', 'stopped') end
redis.call('PEXPIRE', KEYS[2], ARGV[4])
redis.call('PEXPIRE', KEYS[3], ARGV[4])
return stops and 2 or 1
