-- KEYS: list, or sorted set [apart]
-- ARGV: first step most bytes shown ends sums [scores]
-- Reads entries from index `first` on, in steps of `step` (1 or -1): at most `most`, and none after it has read `bytes`. Each entry is
-- copied once. Returns five strings for each entry: its size; its first `shown` bytes; if it is longer, its last `ends` bytes and,
-- if sums is 1, the sha1 of all of it (up to 16 MiB; of more it would take too long); with `scores`, of a sorted set, its score. A
-- string that does not apply is ''.
local page, at, room, shown, ends = {}, tonumber(ARGV[1]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
for _ = 1, tonumber(ARGV[3]) do
  local entry, score
  if room <= 0 then break end
  if ARGV[8] then
    local pair = redis.call('ZRANGE', KEYS[1], at, at, 'WITHSCORES')
    local payload = pair[1] and KEYS[2] and payload_apart(KEYS[2], pair[1])
    entry, score = payload and pair[1] .. payload or pair[1], pair[2]
  else
    entry = redis.call('LINDEX', KEYS[1], at)
  end
  if not entry then break end
  local n, size, cut = #page, #entry, #entry > shown
  page[n + 1] = tostring(size)
  page[n + 2] = cut and string.sub(entry, 1, shown) or entry
  page[n + 3] = cut and ends > 0 and string.sub(entry, -ends) or ''
  page[n + 4] = cut and ARGV[7] == '1' and size <= 16777216 and redis.sha1hex(entry) or ''
  page[n + 5] = score or ''
  at, room = at + tonumber(ARGV[2]), room - size
end
return page
