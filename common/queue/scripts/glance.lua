-- KEYS: list [apart]
-- ARGV: first last LRANGE|ZRANGE
-- Reads how the entries first..last begin. Ends once it has read 1 MiB: a list is read from `last` downwards, a sorted set from `first`
-- upwards. Returns for each entry, in the order of the list, the beginning that may hold a line of quredis, else ''; then the size of
-- the entries read, in bytes; the server's time in ms; '1' if some entries were left out, else '0'.
local command, list, t = ARGV[3], ARGV[3] == 'LRANGE', redis.call('TIME')
local size = redis.call(list and 'LLEN' or 'ZCARD', KEYS[1])
local first, last = tonumber(ARGV[1]), tonumber(ARGV[2])
first = math.max(first < 0 and size + first or first, 0)
last = math.min(last < 0 and size + last or last, size - 1)
local begins, bytes, step = {}, 0, 1
while first <= last and bytes < 1048576 do
  local from = list and math.max(last - step + 1, first) or first
  local to = list and last or math.min(first + step - 1, last)
  local entries, before = redis.call(command, KEYS[1], from, to), bytes
  for i = 1, #entries do
    local entry = entries[list and #entries + 1 - i or i]
    local payload = not list and payload_apart(KEYS[2], entry) or ''
    bytes, entry = bytes + #entry + #payload, payload == '' and entry or entry .. string.sub(payload, 1, 2048)
    begins[#begins + 1] = string.sub(entry, 1, 10) == 'quredis/1 ' and string.sub(entry, 1, 2048) or ''
  end
  step = list and bytes - before < 65536 and 4 or 1          -- few at once: what comes next may be large
  if list then last = from - 1 else first = to + 1 end
end
local out, n = {}, #begins
for i = 1, n do out[i] = begins[list and n + 1 - i or i] end
out[n + 1] = tostring(bytes)
out[n + 2] = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
out[n + 3] = first <= last and '1' or '0'
return out
