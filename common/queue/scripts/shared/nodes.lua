-- This text is put before weigh.lua. It tells how much memory the entries at one end of the list KEYS[2] take, without reading them. Redis keeps a
-- list in nodes: one large entry each, or several small ones. MEMORY USAGE copies nothing. With SAMPLES k it returns the mean of the first k nodes
-- times their number in the list; Redis 8: the mean of their entries times the number of all entries. Neither number is known. So the script adds
-- a probe at the left end, too large to share a node: SAMPLES 1 is then its size times (total + 1), with another one times (total + 2), which
-- tells both. From the change of the mean of k nodes by the probe follows how many nodes or entries counted in it. The script removes the probes
-- before it ends: no other client ever sees them, and they get neither into the AOF nor to replicas.
local function usage(samples) return redis.pcall('MEMORY', 'USAGE', KEYS[2], 'SAMPLES', samples) end
local size, total                           -- of a probe; of all nodes, or of all entries
local function with_probe(samples) return redis.call('LPUSH', KEYS[2], string.rep('x', 100000)) and usage(samples) end
local function measure_probe()
  local with_one = with_probe(1)
  size = math.max(1, with_probe(1) - with_one)
  total = math.max(1, math.floor(with_one / size) - 1)
  for _ = 1, 2 do redis.call('LPOP', KEYS[2]) end
end
-- Returns what the first k nodes take, and how many of `total` they are. A mean near the size of a probe is of nodes with one entry each.
local function taken(k)
  local mean, changed = usage(k) / total, with_probe(k + 1) / (total + 1)
  redis.call('LPOP', KEYS[2])
  local counted = math.abs(size - mean) < 5000 and k or math.max(k, math.min((size - changed) / (changed - mean), total))
  return mean * counted, counted
end
