-- KEYS: lease tray done [notes]
-- ARGV: one at len head tail moved, and those of shared/history.lua
-- Acknowledges one message (one is 1) or the whole tray. If that succeeds, writes the history and forgets the notes.
-- moved: how many messages the owner moved out of the tray (retry, escape, hand-back, emit) under this lease. If the lease has counted another number,
-- Redis has returned to an earlier state, and some of them may lie in the tray again: it is not deleted.
-- Returns 1; 0: it was not there; 2: done, but history could not be written; -2: cannot tell, as the lease counted another number, or
-- is gone: a sweeper may have taken the one message since, and an equal one may lie in the tray.
local n
local counted = redis.pcall('HGET', KEYS[1], KEYS[2])
if type(counted) ~= 'string' then counted = nil end     -- it is gone, or no lease at all
if ARGV[1] == '1' then
  if not counted then return -2 end
  local entry, answer = entry_named(KEYS[2], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
  if not entry then return answer end
  n = redis.call('LREM', KEYS[2], -1, entry)
elseif tonumber(counted or 0) ~= tonumber(ARGV[6]) then
  return -2
else
  n = redis.call('DEL', KEYS[2])
end
return n == 0 and 0 or acknowledged(KEYS[3], KEYS[4], 7)
