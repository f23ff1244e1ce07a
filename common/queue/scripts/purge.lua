-- KEYS: list [what goes with it ...]
-- ARGV: LLEN|ZCARD|EXISTS [apart]
-- Deletes a list. Redis frees it in the background, so it does not block, however long the list is. apart: the second key
-- names the lists of payloads that are stored apart (shared/apart.lua), which the script deletes, too. Returns the answer of
-- the first command.
local n = redis.call(ARGV[1], KEYS[1])
for _, nonce in ipairs(ARGV[2] and redis.pcall('HKEYS', KEYS[2]) or {}) do redis.call('UNLINK', KEYS[2] .. ':' .. nonce) end
for i = 1, #KEYS do redis.call('UNLINK', KEYS[i]) end
return n
