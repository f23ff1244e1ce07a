-- KEYS: lease tray target ... [done notes]
-- ARGV: at len head tail last [target delay_ms n message ...], and after ARGV[last], if there is a history or a note, those of shared/history.lua
-- Acknowledges a message (shared/entry.lua), and pushes what its handler emitted: both or neither. target: the index among KEYS of a list, to which n
-- messages are pushed; or, if delay_ms is not empty, of a set of delayed messages, to which the only one is added. It costs half of transfer(). Its first
-- write is a push, which Redis refuses where memory is full. The lease counts the message as if it had left the tray alive (done.lua): if Redis returns to
-- an earlier state, what was emitted is gone, and the message in the tray must run again. Returns 1; 2: done, but history could not be written; 0: the
-- message was not in the tray, so nothing was pushed; -2: cannot tell. The error of a push names its key.
local entry, answer = entry_named(KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4])
if not entry then return answer end
local i, last, pushed, now = 6, tonumber(ARGV[5]), {}, nil
while i <= last and not answer do
  local key, n, due = tonumber(ARGV[i]), i + 2 + ARGV[i + 2], ARGV[i + 1]
  if due ~= '' then
    now = now or redis.pcall('TIME')
    due = not now.err and string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) + due)
  end
  local put = due == '' and redis.pcall('LPUSH', KEYS[key], unpack(ARGV, i + 3, n)) or due and redis.pcall('ZADD', KEYS[key], 'NX', due, ARGV[n]) or now
  if type(put) == 'table' then answer = put else pushed[#pushed + 1], i = put ~= 0 and i or nil, n + 1 end
  if type(put) == 'table' and due then put.err = put.err .. ', push to ' .. KEYS[key] end
end
local removed = answer or redis.pcall('LREM', KEYS[2], -1, entry)
if not answer and type(removed) == 'table' then removed.err = removed.err .. ", command 'LREM' of a script" end
for k = removed == 1 and 0 or #pushed, 1, -1 do
  local at, key = pushed[k], tonumber(ARGV[pushed[k]])
  if ARGV[at + 1] ~= '' then redis.pcall('ZREM', KEYS[key], ARGV[at + 3]) else redis.pcall('LTRIM', KEYS[key], ARGV[at + 2], -1) end
end
if removed ~= 1 then return removed end
-- The first one of a lease may be of a lease that has run out, whose key must not come back.
if redis.pcall('HINCRBY', KEYS[1], KEYS[2], 1) == 1 and redis.pcall('PTTL', KEYS[1]) == -1 then redis.pcall('DEL', KEYS[1]) end
return #ARGV == last and 1 or acknowledged(KEYS[#KEYS - 1], KEYS[#KEYS], last + 1)
