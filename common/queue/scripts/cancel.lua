-- KEYS: none tray cancels
-- ARGV: at len head tail strip keep_ms most order
-- Stores an order to cancel a message that is in this tray (shared/entry.lua), under the SHA1 of it behind its first `strip` bytes: the time, and `order`.
-- An order for equal bytes is replaced. Returns the SHA1; 0: the message is not in the tray; -2: cannot tell; -3: there are `most` orders.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local entry, answer = entry_named(KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4])
if not entry then return answer end
local field, t = redis.sha1hex(changed(entry, '', ARGV[5])), redis.call('TIME')
if redis.call('HLEN', KEYS[3]) >= tonumber(ARGV[7]) and redis.call('HEXISTS', KEYS[3], field) == 0 then return -3 end
redis.call('HSET', KEYS[3], field, string.format('%.0f ', t[1] * 1000 + math.floor(t[2] / 1000)) .. ARGV[8])
redis.call('PEXPIRE', KEYS[3], ARGV[6])
return field
