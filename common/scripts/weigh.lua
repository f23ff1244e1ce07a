-- KEYS: none list
-- ARGV: most bytes [right]
-- Estimates how much of a list may be read at once, without reading it, since LINDEX would copy a large entry. Returns how many entries the list
-- has; how many of them, from the left end (right: from that end), fit into `bytes`, at most `most` and at least one; and the memory that the
-- first of them takes if it alone exceeds `bytes`, else 0. If the user may not run MEMORY USAGE, the page is `most` entries.
-- Redis keeps a list in nodes: one large entry each, or several small ones. MEMORY USAGE copies nothing, but with SAMPLES k it returns the average
-- size of the first k nodes times the number of all nodes, which is not known. The script finds that number with two probes, too large to
-- share a node with others (such a node has 64 KiB at most). With one at the left end, SAMPLES 1 is (nodes + 1) * size of the probe; with both
-- it is (nodes + 2) * size. So the difference is the size, and tells the number. Then it removes both. A script runs as a whole: nobody ever
-- sees the probes, and they get neither into the AOF nor to replicas.
local n, page, room = redis.call('LLEN', KEYS[2]), tonumber(ARGV[1]), tonumber(ARGV[2])
local function usage(samples) return redis.pcall('MEMORY', 'USAGE', KEYS[2], 'SAMPLES', samples) end
local all = n > 0 and usage(0)
if type(all) ~= 'number' or all <= room then return { n, page, 0 } end
if redis.replicate_commands then redis.replicate_commands() end     -- before Redis 7 set_repl() needs it
redis.set_repl(redis.REPL_NONE)
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
redis.call('LPOP', KEYS[1])                 -- who has no right to remove the probes adds none
local function with_probe() return redis.call('LPUSH', KEYS[2], string.rep('x', 100000)) and usage(1) end
local with_one = with_probe()
local size = math.max(1, with_probe() - with_one)
local nodes = math.max(1, math.floor(with_one / size) - 1)
for _ = 1, 2 do redis.call('LPOP', KEYS[2]) end
local function part(k)                      -- what k nodes at that end take
  local others = math.max(0, nodes - k)
  if not ARGV[3] then return math.floor(usage(nodes - others) * (nodes - others) / nodes) end
  return others == 0 and all or all - math.floor(usage(others) * others / nodes)
end
while page > 1 and part(page) > room do page = math.floor(page / 2) end
return { n, page, part(1) > room and part(1) or 0 }
