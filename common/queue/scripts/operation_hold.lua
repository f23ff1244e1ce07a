-- KEYS: none operations redriven:id
-- ARGV: id holder instead hold_ms keep_ms [field value ...]
-- Holds the operation `id` for hold_ms, so that no other process continues it. instead: a holder that is known to be dead. ARGV has all fields. If there is no
-- such operation, it begins with these values ('': none), and nothing was moved back yet. Returns whether another one holds it ('held', holder), or 'new' or
-- 'on', and the values of all fields, in the order of ARGV.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function get(field) return redis.call('HGET', KEYS[2], ARGV[1] .. ':' .. field) or '' end
local function set(field, value) redis.call('HSET', KEYS[2], ARGV[1] .. ':' .. field, value) end
local holder, held = get('holder'), tonumber(get('held')) or 0      -- held further than that: the clock went back, and a living holder corrects it
if holder ~= '' and holder ~= ARGV[2] and holder ~= ARGV[3] and held > now and held <= now + ARGV[4] then return { 'held', holder } end
local new = get('bound') == ''
if new then
  for i = 6, #ARGV, 2 do redis.call('HDEL', KEYS[2], ARGV[1] .. ':' .. ARGV[i]) end
  redis.call('DEL', KEYS[3])
  for i = 6, #ARGV, 2 do if ARGV[i + 1] ~= '' then set(ARGV[i], ARGV[i + 1]) end end
  set('begun', string.format('%.0f', now))
end
if get('wanted') == 'stop' then set('wanted', 'stopped') end        -- that holder is gone
set('holder', ARGV[2])
set('held', string.format('%.0f', now + ARGV[4]))
redis.call('PEXPIRE', KEYS[2], ARGV[5])
redis.call('PEXPIRE', KEYS[3], ARGV[5])
local answer = { new and 'new' or 'on' }
for i = 6, #ARGV, 2 do answer[#answer + 1] = get(ARGV[i]) end
return answer
