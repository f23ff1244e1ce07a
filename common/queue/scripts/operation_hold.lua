-- KEYS: none operations
-- ARGV: id holder instead hold_ms keep_ms [field value ...]
-- Holds the operation `id` for hold_ms, so that no other process continues it. instead: a holder that is known to be dead. If there is no such operation, it
-- begins with these fields. Returns whether another one holds it ('held', holder), or 'new' or 'on', and its fields, in the order of the last lines.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function get(field) return redis.call('HGET', KEYS[2], ARGV[1] .. ':' .. field) or '' end
local function set(field, value) redis.call('HSET', KEYS[2], ARGV[1] .. ':' .. field, value) end
local holder = get('holder')
if holder ~= '' and holder ~= ARGV[2] and holder ~= ARGV[3] and tonumber(get('held')) > now then return { 'held', holder, get('begun') } end
local new = get('bound') == ''
if new then
  for i = 6, #ARGV, 2 do set(ARGV[i], ARGV[i + 1]) end
  set('begun', string.format('%.0f', now))
end
set('holder', ARGV[2])
set('held', string.format('%.0f', now + ARGV[4]))
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return { new and 'new' or 'on', get('begun'), get('since'), get('bound'), get('total'), get('acted'), get('next'), get('first'), get('passed') }
