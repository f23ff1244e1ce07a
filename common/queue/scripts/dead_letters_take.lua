-- KEYS: none escape log claimed operations redriven:id [ingress]
-- ARGV: id holder gone noted next [at size sha1 line record_id ...]
-- Takes dead letters for the operation `id`, up to the first that is not at its place, has no record, may be claimed, or begins like a wrapper, which the
-- caller must judge when it moves it alone: each goes to ingress behind its line;
-- without ingress it is deleted. at: index from the right, before any left. All leave together: the text `gone` replaces them, and one LREM removes it from
-- the nearer end. noted: for how long `redriven` notes their fingerprints; '0': not at all. next: where the operation goes on. Returns how many left, and how
-- many the operation has done; -1: not held.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
if redis.call('HGET', KEYS[5], ARGV[1] .. ':holder') ~= ARGV[2] then return { -1, 0 } end
local function count(n) return redis.call('HINCRBY', KEYS[5], ARGV[1] .. ':done', n) end
if count(0) < 0 or count(0) > 1e15 then return redis.error_reply('ERR ' .. KEYS[5] .. ' does not hold how many are done') end      -- before any leaves
local claims, taken, ids, sums, left = {}, {}, {}, {}, redis.call('LLEN', KEYS[2])
for _, sha1 in ipairs(redis.call('HVALS', KEYS[4])) do claims[sha1] = true end
for i = 6, #ARGV, 5 do
  local entry = redis.call('LINDEX', KEYS[2], ARGV[i])
  if not entry or #entry ~= tonumber(ARGV[i + 1]) or claims[ARGV[i + 2]] or redis.sha1hex(entry) ~= ARGV[i + 2] or
    KEYS[7] and string.sub(entry, 1, 12) == 'quredis/1 w=' or #redis.call('XRANGE', KEYS[3], ARGV[i + 4], ARGV[i + 4]) == 0 then break end
  if KEYS[7] then redis.call('LPUSH', KEYS[7], ARGV[i + 3] .. entry) end
  if redis.pcall('LSET', KEYS[2], ARGV[i], ARGV[3]).err then redis.call(unpack(KEYS[7] and { 'LPOP', KEYS[7] } or { 'LLEN', KEYS[2] })) break end
  taken[#taken + 1], ids[#ids + 1], sums[#sums + 1] = entry, ARGV[i + 4], string.sub(ARGV[i + 2], 1, 16)
end
local near = #taken > 0 and ARGV[6] * -2 > left and 1 or -1
local removed = #taken > 0 and redis.pcall('LREM', KEYS[2], near * #taken, ARGV[3]) or 0
if removed ~= #taken then                   -- refused: the copies must not stay
  for n, entry in ipairs(taken) do redis.call('LSET', KEYS[2], ARGV[1 + 5 * n], entry) if KEYS[7] then redis.call('LPOP', KEYS[7]) end end
  return removed
end
if #ids > 0 then redis.pcall('XDEL', KEYS[3], unpack(ids)) end
if #ids > 0 and ARGV[4] ~= '0' then redis.pcall('APPEND', KEYS[6], table.concat(sums)) redis.pcall('PEXPIRE', KEYS[6], ARGV[4]) end
return { #ids, count(#ids), redis.call('HSET', KEYS[5], ARGV[1] .. ':next', ARGV[5]) }
