-- KEYS: none ingress
-- ARGV: line [seen drop]
-- The newest waiting message gets line and the server's time before it: all that is to its right was there by then.
-- Returns 1; 0: nothing waits, or it changed; or what it begins with, if that may be a wrapper: then the caller says
-- what it has seen and how much of that is to be dropped.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local message = redis.call('LINDEX', KEYS[2], 0)
if not message then return 0 end
if ARGV[2] then
  if string.sub(message, 1, #ARGV[2]) ~= ARGV[2] then return 0 end
  message = string.sub(message, ARGV[3] + 1)
elseif string.sub(message, 1, 12) == 'quredis/1 w=' then
  return string.sub(message, 1, 1024)
end
local t = redis.call('TIME')
local mark = string.format(' mark=%.0f\n', t[1] * 1000 + math.floor(t[2] / 1000))
redis.call('LSET', KEYS[2], 0, ARGV[1] .. mark .. message)
return 1
