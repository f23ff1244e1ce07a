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
local refused = transfer(at == -1 and { 'LTRIM', KEYS[2], 0, -2 } or { 'LREM', KEYS[2], -1, entry }, { 'LPUSH', KEYS[3], letter })
if refused then return refused end
if leased == 1 then redis.pcall('HINCRBY', KEYS[1], KEYS[2], 1) end     -- as in escape.lua
return recorded(KEYS[4], #letter, letter, 5)
