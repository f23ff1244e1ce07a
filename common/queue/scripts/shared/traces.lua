-- This text is put before the script that creates the first secret (TRACES in common/queue/scripts.h). traces() returns the first of these keys, from KEYS[i]
-- on, that exists and has the type that ARGV names, from ARGV[j] on ('': any); false: none has. A key of another type counts as absent.
local function traces(i, j)
  while KEYS[i] do
    local kind = redis.call('TYPE', KEYS[i]).ok
    if kind == ARGV[j] or (ARGV[j] == '' and kind ~= 'none') then return KEYS[i] end
    i, j = i + 1, j + 1
  end
  return false
end
