-- KEYS: lease tray escape log
-- ARGV: lease_ms limit head strip [field value ...]
-- Moves the oldest entry of the tray that is longer than limit to escape. Wrapper, head, strip and record: shared/unread.lua.
-- Returns {length of what escaped, '', 1}; {.., '', 2}: the record could not be written; {length, first KiB, 1}: nothing moved, call
-- again; {0, '', 1}: there is no such entry.
local leased, at, entry = redis.call('PEXPIRE', KEYS[1], ARGV[1]), 0
repeat
  at, entry = at - 1, redis.call('LINDEX', KEYS[2], at - 1)
until not entry or is_longer(entry, ARGV[2])
if not entry then return { 0, '', 1 } end
local letter, first = letter_of(entry, ARGV[3], ARGV[4])
if not letter then return { #entry, first, 1 } end
redis.call('LPUSH', KEYS[3], letter)
local removed = at == -1 and redis.pcall('LTRIM', KEYS[2], 0, -2) or redis.pcall('LREM', KEYS[2], -1, entry)
if type(removed) == 'table' and removed.err then   -- refused: the copy must not stay
  redis.call('LPOP', KEYS[3])
  return removed
end
if leased == 1 then redis.pcall('HINCRBY', KEYS[1], KEYS[2], 1) end     -- as in escape.lua
return recorded(KEYS[4], #letter, letter, 5)
