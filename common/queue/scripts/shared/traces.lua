-- This text is put before the script that creates the first secret (TRACES in common/queue/scripts.h). traces() returns the first of these keys, from KEYS[i]
-- on, that exists and has the type that ARGV names, from ARGV[j] on; false: none has. A key of another type counts as absent.
local function traces(i, j)
  while KEYS[i] do
    if redis.call('TYPE', KEYS[i]).ok == ARGV[j] then return KEYS[i] end
    i, j = i + 1, j + 1
  end
  return false
end
