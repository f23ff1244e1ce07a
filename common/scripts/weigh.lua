-- KEYS: none list
-- ARGV: most bytes
-- Estimates how much of a list may be read at once, without reading it, since LINDEX would copy a large entry. Returns how many entries
-- the list has; how many of them, from the left end, fit into `bytes`, at most `most` and at least one; and the memory that the first
-- entry takes if it alone exceeds `bytes`, else 0. If the user may not run MEMORY USAGE, the page is `most` entries.
-- Redis keeps a list in nodes: one large entry each, or several small ones. MEMORY USAGE copies nothing, but with SAMPLES k it returns
-- the average size of the first k nodes times the number of all nodes, which is not known. The script finds that number with two
-- probes, too large to share a node with others (such a node has 64 KiB at most). With one at the left end, SAMPLES 1 is
-- (nodes + 1) * size of the probe; with both it is (nodes + 2) * size. So the difference is the size, and tells the number. Then it
-- removes both. A script runs as a whole: nobody ever sees the probes, and they get neither into the AOF nor to replicas.
local n, page, room = redis.call('LLEN', KEYS[2]), tonumber(ARGV[1]), tonumber(ARGV[2])
local function usage(samples) return redis.pcall('MEMORY', 'USAGE', KEYS[2], 'SAMPLES', samples) end
local all = n > 0 and usage(0)
if type(all) ~= 'number' or all <= room then return { n, page, 0 } end
if n == 1 then return { 1, 1, all } end
if redis.replicate_commands then redis.replicate_commands() end     -- before Redis 7 set_repl() needs it
redis.set_repl(redis.REPL_NONE)
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local probe = string.rep('x', 100000)
redis.call('LPUSH', KEYS[2], probe)
local with_one = usage(1)
redis.call('LPUSH', KEYS[2], probe)
local size = math.max(1, usage(1) - with_one)
local nodes = math.max(1, math.floor(with_one / size) - 1)
for _ = 1, 2 do redis.call('LPOP', KEYS[2]) end
local function first(k) return math.floor(usage(k) * math.min(k, nodes) / nodes) end      -- what the first k nodes take
while page > 1 and first(page) > room do page = math.floor(page / 2) end
return { n, page, first(1) > room and first(1) or 0 }
