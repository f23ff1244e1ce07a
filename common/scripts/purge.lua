-- KEYS: list [what goes with it ...]
-- ARGV: LLEN|ZCARD
-- Freed in the background: the server does not stand still, however long the list is.
local n = redis.call(ARGV[1], KEYS[1])
for i = 1, #KEYS do redis.call('UNLINK', KEYS[i]) end
return n
