-- KEYS: lease tray delayed
-- ARGV: lease_ms at len head tail line strip delay_ms
-- Moves a message (entry.lua) from the tray to delayed, due in delay_ms, with line in place of its first `strip` bytes.
-- The lease counts this message among those that left the tray alive (done.lua). Returns 1; 0: the message was not in the tray.
local leased = redis.call('PEXPIRE', KEYS[1], ARGV[1])
local entry = entry_named(KEYS[2], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
if not entry then return 0 end
local wrapped = changed(entry, ARGV[6], ARGV[7])
local t = redis.call('TIME')
local due = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[8]
local added = redis.call('ZADD', KEYS[3], 'NX', string.format('%.0f', due), wrapped)
local removed = redis.pcall('LREM', KEYS[2], -1, entry)
if removed ~= 1 then                        -- not there, or refused: what this call added must not stay
  if added == 1 then redis.call('ZREM', KEYS[3], wrapped) end
  return removed
end
if leased == 1 then redis.pcall('HINCRBY', KEYS[1], KEYS[2], 1) end
return 1
