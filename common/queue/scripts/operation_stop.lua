-- KEYS: none operations
-- ARGV: id hold_ms
-- Stops the operation `id`, wherever it runs. Returns 1: the process that holds it is asked to stop; 2: none holds it, and no sweeper will begin;
-- 0: there is no such operation.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local function get(field) return redis.call('HGET', KEYS[2], ARGV[1] .. ':' .. field) or '' end
if get('bound') == '' then return 0 end
local t = redis.call('TIME')
local now, held = t[1] * 1000 + math.floor(t[2] / 1000), tonumber(get('held')) or 0
local holds = get('holder') ~= '' and held > now and held <= now + ARGV[2]
redis.call('HSET', KEYS[2], ARGV[1] .. ':wanted', holds and 'stop' or 'stopped')
return holds and 1 or 2
