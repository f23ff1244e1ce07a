-- KEYS: list [what goes with it ...]
-- ARGV: LLEN|ZCARD|EXISTS [apart]
-- Freed in the background: the server does not stand still, however long the list is. apart: the second key names the lists of
-- messages that are stored apart (shared/apart.lua); they go, too. Returns what the first command says of the list.
local n = redis.call(ARGV[1], KEYS[1])
for _, nonce in ipairs(ARGV[2] and redis.pcall('HKEYS', KEYS[2]) or {}) do redis.call('UNLINK', KEYS[2] .. ':' .. nonce) end
for i = 1, #KEYS do redis.call('UNLINK', KEYS[i]) end
return n
