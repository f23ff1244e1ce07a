-- KEYS: none list
-- ARGV: most bytes [right]
-- Estimates how much of a list may be read at once, without reading it, since LINDEX would copy a large entry. Returns how many entries the list
-- has; how many of them, from the left end (right: from that end), fit into `bytes`, at most `most` and at least one; and the memory that the
-- first of them takes if it alone exceeds `bytes`, else 0 (shared/nodes.lua). If the user may not run MEMORY USAGE, the page is `most` entries.
local n, page, room = redis.call('LLEN', KEYS[2]), tonumber(ARGV[1]), tonumber(ARGV[2])
local all = n > 0 and usage(0)
if type(all) ~= 'number' or all <= room then return { n, page, 0 } end
if redis.replicate_commands then redis.replicate_commands() end     -- before Redis 7 set_repl() needs it
redis.set_repl(redis.REPL_NONE)
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
redis.call('LPOP', KEYS[1])                 -- fails here if the user may not remove the probes, before any is added
measure_probe()
local function part(k)                      -- the memory of the nodes that hold the k entries at that end
  if total <= k or not ARGV[3] then return math.floor(taken(math.min(k, total))) end
  local before, after = 0, total            -- nodes: the largest number that holds none of them
  while after - before > 1 do
    local middle = math.floor((before + after) / 2)
    if select(2, taken(middle)) <= total - k + 0.5 then before = middle else after = middle end
  end
  return math.floor(all - (before > 0 and taken(before) or 0))
end
while page > 1 and part(page) > room do page = math.floor(page / 2) end
return { n, page, part(1) > room and part(1) or 0 }
