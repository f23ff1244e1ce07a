-- KEYS: none stats rate
-- ARGV: keep_ms names latest batch id class n [class n ...]
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
redis.call('HLEN', KEYS[2])                 -- nothing is counted if Redis refuses one of the keys
if repeated(KEYS[3], ARGV[4], ARGV[5]) then return 0 end
local function place(k, have, class, n)      -- at most so many classes in each hash: one more takes the place of the smallest
  local least, names = nil, 0
  for name, count in pairs(have) do
    names = names + 1
    if not least or count < have[least] then least = name end
  end
  if class == 'other' or have[class] or names < tonumber(ARGV[2]) then return class end
  if have[least] > n then return 'other' end
  add(KEYS[k], 'failed:other', have[least])
  redis.call('HDEL', KEYS[k], 'failed:' .. least)
  have[least] = nil
  return class
end
for k = 2, 3 do
  local have, all = {}, redis.call('HGETALL', KEYS[k])
  for i = 1, #all, 2 do have[string.match(all[i], '^failed:(.+)') or 'other'] = number(all[i + 1]) end
  for i = 6, #ARGV, 2 do
    have.other = nil                        -- it and fields of other names have no place
    local class = place(k, have, ARGV[i], tonumber(ARGV[i + 1]))
    add(KEYS[k], 'failed:' .. class, ARGV[i + 1])
    have[class] = (have[class] or 0) + ARGV[i + 1]
  end
end
if ARGV[3] ~= '' then set_latest(KEYS[2], 'failed_latest', ARGV[3]) end
return redis.call('PEXPIRE', KEYS[3], ARGV[1])
