-- KEYS: none ingress
-- ARGV: [at len head drop line key ...]
-- Stamps entries that stamp.lua returned and the caller verified. Each has `len` bytes and begins with head; line and the time replace its
-- first `drop` bytes. It is searched at index `at` and up to 16 entries nearer to the pop end, since others may have popped meanwhile.
-- Returns how many entries were found and stamped.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local stamped, popped = 0, 0
for i = 1, #ARGV, 6 do
  local head = ARGV[i + 2]
  for n = popped, math.min(16, -1 - ARGV[i]) do
    local entry = redis.call('LINDEX', KEYS[2], ARGV[i] + n)
    if entry and #entry == tonumber(ARGV[i + 1]) and string.sub(entry, 1, #head) == head then
      stamp(KEYS[2], ARGV[i] + n, ARGV[i + 4], ARGV[i + 5], string.sub(entry, ARGV[i + 3] + 1))
      stamped, popped = stamped + 1, n
      break
    end
  end
end
return stamped
