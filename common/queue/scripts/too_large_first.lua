-- KEYS: none rescue escape log
-- ARGV: limit head strip [field value ...]
-- Moves the left end of the rescue list to escape if it is longer than limit. Wrapper, head, strip and record: shared/unread.lua; result: as
-- too_large.lua. If the entry is alone in its list and escape is empty, it is not copied: its list is renamed to escape.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local entry = redis.call('LINDEX', KEYS[2], 0)
if not entry or not is_longer(entry, ARGV[1]) then return { 0, '', 1 } end
local letter, first = letter_of(entry, ARGV[2], ARGV[3])
if not letter then return { #entry, first, 1 } end
if #letter == #entry and redis.call('LLEN', KEYS[2]) == 1 and redis.call('EXISTS', KEYS[3]) == 0 then
  redis.call('RENAME', KEYS[2], KEYS[3])
else
  local refused = transfer({ 'LTRIM', KEYS[2], 1, -1 }, { 'LPUSH', KEYS[3], letter })
  if refused then return refused end
end
return recorded(KEYS[4], #letter, letter, 4)
