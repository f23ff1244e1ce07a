-- KEYS: lease tray target ... [done notes]
-- ARGV: at len head tail last [target delay_ms n message ...], and after ARGV[last], if there is a history or a note, those of shared/history.lua
-- Acknowledges a message (shared/entry.lua), and pushes what its handler emitted: both or neither. target: the index among KEYS of a list, to which n
-- messages are pushed; or, if delay_ms is not empty, of a set of delayed messages, to which the only one is added. Its first write counts the message in
-- the lease as one that left the tray alive (done.lua), and Redis refuses it where memory is full. So if Redis returns to an earlier state, what was emitted
-- is gone, and the message in the tray must run again. It pushes nothing that it could not take back (shared/emitted.lua). Returns 1; 2: done, but
-- history could not be written; 0: the message was not in the tray, so nothing was pushed; -2: cannot tell. The error of a push names its key.
local entry, answer = entry_named(KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4])
if not entry then return answer end
local last, asked, pushed, t = tonumber(ARGV[5]), {}, {}, nil
local counted, uncounted = run('HINCRBY', KEYS[1], KEYS[2], 1)
if uncounted and not uncounted.err:find('WRONGTYPE') then return uncounted end
-- The first one of a lease may be of a lease that has run out, whose key must not come back. One of another type holds no move up.
local gone = uncounted or counted == 1 and redis.pcall('PTTL', KEYS[1]) == -1 and redis.pcall('DEL', KEYS[1])
local function stays(list, delay)
  if delay ~= '' then t = t or redis.pcall('TIME') end
  return t and t.err and t or emitted_stays(list, delay ~= '', asked)
end
local function push(list, delay, at, to)
  local due = delay ~= '' and string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000) + delay)
  local put, refused = run(due and 'ZADD' or 'LPUSH', list, unpack(due and { 'NX', due, ARGV[at] } or ARGV, due and 1 or at, due and 3 or to))
  if put ~= 0 and not refused then pushed[#pushed + 1] = due and { 'ZREM', list, ARGV[at] } or { 'LTRIM', list, to - at + 1, -1 } end
  return refused
end
local removed = emitted_each(6, last, stays) or emitted_each(6, last, push) or run('LREM', KEYS[2], -1, entry)
if removed == 1 then return #ARGV == last and 1 or acknowledged(KEYS[#KEYS - 1], KEYS[#KEYS], last + 1) end
for k = #pushed, 1, -1 do redis.call(unpack(pushed[k])) end
if not gone then redis.call('HINCRBY', KEYS[1], KEYS[2], -1) end
return removed
