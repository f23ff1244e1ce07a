-- KEYS: none rescue escape log
-- ARGV: limit head strip [field value ...]
-- Moves the first entry of rescue, at the left end, to escape if it is longer than limit. Wrapper, head, strip, record and result: as in
-- too_large.lua. If the entry is alone in its list and escape is empty, it is not copied: its list is renamed to escape.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local entry = redis.call('LINDEX', KEYS[2], 0)
local wrapped = entry and string.sub(entry, 1, 12) == 'quredis/1 w='
if not entry or #entry <= ARGV[1] + (wrapped and 1024 or 0) then return { 0, '' } end
local letter = entry
if wrapped then
  local head = string.sub(entry, 1, 1024)
  if head ~= ARGV[2] then return { #entry, head } end
  letter = changed(entry, '', ARGV[3])
end
if #letter == #entry and redis.call('LLEN', KEYS[2]) == 1 and redis.call('EXISTS', KEYS[3]) == 0 then
  redis.call('RENAME', KEYS[2], KEYS[3])
else
  redis.call('LPUSH', KEYS[3], letter)
  local removed = redis.pcall('LTRIM', KEYS[2], 1, -1)
  if removed.err then                       -- refused: the copy must not stay
    redis.call('LPOP', KEYS[3])
    return removed
  end
end
if ARGV[4] then
  local sha1 = #letter <= 16777216 and redis.sha1hex(letter) or ''
  redis.pcall('XADD', KEYS[4], '*', 'id', sha1 ~= '' and 'sha1:' .. sha1 or '', 'sha1', sha1, 'size', #letter, unpack(ARGV, 4))
end
return { #letter, '' }
