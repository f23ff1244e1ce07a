-- KEYS: none cancels
-- ARGV: field before keep_ms after ended
-- Changes the text of an order to cancel a message, if it is still `before`: to `after`, at the time that it had; ended 1: as of now.
-- Returns 1; 0: it is another order, or gone.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local order = redis.call('HGET', KEYS[2], ARGV[1])
local at, text = string.match(order or '', '^(%d+) (.*)$')
if text ~= ARGV[2] then return 0 end
local t = redis.call('TIME')
if ARGV[5] == '1' then at = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000)) end
redis.call('HSET', KEYS[2], ARGV[1], at .. ' ' .. ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1
