-- KEYS: lease tray escape log
-- ARGV: lease_ms limit seen [field value ...]
-- Moves an entry that is longer than `limit` to escape without reading it: to read it would block Redis for 5 ms per MiB. The caller received
-- the first bytes of the entry, so it knows its size, `seen` bytes, and that it does not begin like a wrapper. The script moves the entry only if
-- it is alone in the tray and escape is short: it appends the entries of escape to the tray, and renames the tray to escape. It cannot compare
-- the entry, so it compares `seen` and `limit` with MEMORY USAGE, which is at most a third more than the size of the entry.
-- Writes the record (shared/unread.lua). Returns {seen, '', 1}; {seen, '', 2}: Redis refused the record; {0, '', 1}: the script moved nothing, and the
-- caller runs too_large.lua or too_large_first.lua.
local leased, seen, above = redis.call('PEXPIRE', KEYS[1], ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[2]) / 3 * 4 + 65536
if redis.call('LLEN', KEYS[2]) ~= 1 or redis.call('LLEN', KEYS[3]) > 1000 then return { 0, '', 1 } end
local held = tonumber(redis.pcall('MEMORY', 'USAGE', KEYS[2], 'SAMPLES', 1)) or 0
local older = tonumber(redis.pcall('MEMORY', 'USAGE', KEYS[3], 'SAMPLES', 0)) or 0
if held < seen or held > seen / 3 * 4 + 65536 or held <= above or older > 1048576 then return { 0, '', 1 } end
local entries = redis.call('LRANGE', KEYS[3], 0, -1)
if #entries > 0 then redis.call('RPUSH', KEYS[2], unpack(entries)) end
local renamed = redis.pcall('RENAME', KEYS[2], KEYS[3])
if renamed.err then                         -- refused: the entries of escape must not stay in the tray
  redis.call('LTRIM', KEYS[2], 0, 0)
  return renamed
end
if leased == 1 then redis.pcall('HINCRBY', KEYS[1], KEYS[2], 1) end     -- as in escape.lua
return recorded(KEYS[4], seen, nil, 4)
