-- KEYS: lease tray escape log
-- ARGV: lease_ms limit head strip [field value ...]
-- Moves the oldest entry of the tray that is longer than limit to escape, and adds id, sha1 and size to its record (no sha1 above 16 MiB:
-- it would take too long). A wrapper (up to 1 KiB) does not count and must not get into escape, but Redis cannot verify its seal. So if the
-- entry begins like one, nothing moves at first: the caller gets the beginning, and calls again with it as head and with the bytes to strip.
-- Returns {length of what escaped, ''}; {length, first KiB}: nothing moved, call again; {0, ''}: there is no such entry.
local leased, at, entry, wrapped = redis.call('PEXPIRE', KEYS[1], ARGV[1]), 0
repeat
  at, entry = at - 1, redis.call('LINDEX', KEYS[2], at - 1)
  wrapped = entry and string.sub(entry, 1, 12) == 'quredis/1 w='
until not entry or #entry > ARGV[2] + (wrapped and 1024 or 0)
if not entry then return { 0, '' } end
local letter = entry
if wrapped then
  local head = string.sub(entry, 1, 1024)
  if head ~= ARGV[3] then return { #entry, head } end
  letter = string.sub(entry, ARGV[4] + 1)
end
redis.call('LPUSH', KEYS[3], letter)
local removed = at == -1 and redis.pcall('LTRIM', KEYS[2], 0, -2) or redis.pcall('LREM', KEYS[2], -1, entry)
if type(removed) == 'table' and removed.err then   -- refused: the copy must not stay
  redis.call('LPOP', KEYS[3])
  return removed
end
if leased == 1 then redis.pcall('HINCRBY', KEYS[1], KEYS[2], 1) end     -- as in escape.lua
if ARGV[5] then
  local sha1 = #letter <= 16777216 and redis.sha1hex(letter) or ''
  redis.pcall('XADD', KEYS[4], '*', 'id', sha1 ~= '' and 'sha1:' .. sha1 or '', 'sha1', sha1, 'size', #letter, unpack(ARGV, 5))
end
return { #letter, '' }
