-- KEYS: lease tray done [notes]
-- ARGV: one at len head tail moved keep worker node n_notes [note ...] [id finished_at duration_ms attempts sha1 size payload ...]
-- Acknowledges one message (one is 1) or the whole tray. If that succeeds, writes the history and forgets the notes.
-- moved: how many messages the owner moved out of the tray (retry, escape, hand-back) under this lease. If the lease has counted another number,
-- Redis has returned to an earlier state, and some of them may lie in the tray again: it is not deleted.
-- Returns 1; 0: it was not there; 2: done, but history could not be written; -2: cannot tell, as the lease counted another number.
local n
if ARGV[1] == '1' then
  local entry, answer = entry_named(KEYS[2], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
  if not entry then return answer end
  n = redis.call('LREM', KEYS[2], -1, entry)
elseif tonumber(redis.call('HGET', KEYS[1], KEYS[2]) or 0) ~= tonumber(ARGV[6]) then
  return -2
else
  n = redis.call('DEL', KEYS[2])
end
if n == 0 then return 0 end
local first = 11 + ARGV[10]
if KEYS[4] then redis.pcall('HDEL', KEYS[4], unpack(ARGV, 11, first - 1)) end
for i = first, #ARGV, 7 do
  local id = redis.pcall('XADD', KEYS[3], 'MAXLEN', '~', ARGV[7], '*', 'id', ARGV[i], 'finished_at', ARGV[i + 1],
    'duration_ms', ARGV[i + 2], 'attempts', ARGV[i + 3], 'worker', ARGV[8], 'node', ARGV[9], 'sha1', ARGV[i + 4],
    'size', ARGV[i + 5], 'message', ARGV[i + 6])
  if type(id) == 'table' then return 2 end
end
return 1
