-- This text is put before the scripts that put a message back (PUT_BACK in common/queue/scripts.h). put_back() moves the entry from the list
-- KEYS[2] to the pop end of ingress, KEYS[3], or with side L to its push end, as `text`. count: as for LREM, so it says at which end of the list
-- the entry is looked for.
-- With the notes of a shared queue, KEYS[4], it writes `note` under `field`, and Redis keeps the notes for keep_ms from then on.
-- Returns nil; 0: the entry is not in the list; or the error with which Redis refused: then nothing has changed.
local function put_back(entry, count, text, side, field, note, keep_ms)
  local before = KEYS[4] and redis.call('HGET', KEYS[4], field)
  if side == 'L' then redis.call('LPUSH', KEYS[3], text) else redis.call('RPUSH', KEYS[3], text) end
  local noted = KEYS[4] and redis.pcall('HSET', KEYS[4], field, note)
  local removed = type(noted) == 'table' and noted or redis.pcall('LREM', KEYS[2], count, entry)
  if removed ~= 1 then                      -- not there, or refused: the copy must not stay, nor the note
    if side == 'L' then redis.call('LPOP', KEYS[3]) else redis.call('RPOP', KEYS[3]) end
    if before then redis.pcall('HSET', KEYS[4], field, before) elseif KEYS[4] then redis.pcall('HDEL', KEYS[4], field) end
    return removed
  end
  if KEYS[4] then redis.pcall('PEXPIRE', KEYS[4], keep_ms) end
end
