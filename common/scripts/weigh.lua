-- KEYS: none list
-- ARGV: most bytes
-- Estimates how much of a list may be read at once, without reading it: LINDEX would copy a large entry, MEMORY USAGE copies nothing.
-- Returns how many entries the list has; how many of them, from the left end, fit into `bytes`, at most `most` and at least one; and
-- the memory that the first entry takes if it alone exceeds `bytes`, else 0. MEMORY USAGE returns the average of the first nodes of
-- the list times the number of nodes; a node is one large entry or several small ones. Two entries of known size, which are pushed
-- and popped again, reveal that number; each takes a node of its own, as no node of several entries exceeds 64 KiB. If the user
-- may not run MEMORY USAGE, the page is `most` entries.
local n, page, room = redis.call('LLEN', KEYS[2]), tonumber(ARGV[1]), tonumber(ARGV[2])
local function usage(samples) return redis.pcall('MEMORY', 'USAGE', KEYS[2], 'SAMPLES', samples) end
local all = n > 0 and usage(0)
if type(all) ~= 'number' or all <= room then return { n, page, 0 } end
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local probe = string.rep('x', 100000)
redis.call('LPUSH', KEYS[2], probe)
local one = usage(1)
redis.call('LPUSH', KEYS[2], probe)
local nodes = math.max(1, math.floor(one / math.max(1, usage(1) - one)) - 1)
for _ = 1, 2 do redis.call('LPOP', KEYS[2]) end
local function first(k) return math.floor(usage(k) * math.min(k, nodes) / nodes) end      -- what the first k nodes take
while page > 1 and first(page) > room do page = math.floor(page / 2) end
return { n, page, first(1) > room and first(1) or 0 }
