-- KEYS: workers lease tray0 tray1 tray2 [old_lease old_tray0 old_tray1 old_tray2] [seats]
-- ARGV: lease_ms incarnation registration seated [old_incarnation old_field]. seated: what it has in the hash of seats (seats.lua); '': nothing
-- Registers a name with its lease, and takes the trays of the old name over. Returns 1: no sweeper has taken anything from these trays, as the
-- old name was neither under rescue nor marked dead; 0: one may have; -1: the name was registered before, and its lease has expired since. Sweepers may
-- consider it dead, so it is never used again.
local alive = redis.call('PEXPIRE', KEYS[2], ARGV[1])     -- the first write decides what maxmemory allows
-- The request was executed before: the trays may hold messages, and messages that came late under the old name must not get among them.
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then return alive == 1 and tonumber(redis.call('HGET', KEYS[2], 'untouched') or 0) or -1 end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
for i = 3, 5 do redis.call('HSET', KEYS[2], KEYS[i], 0) end     -- retry.lua, escape.lua and hand_back.lua count here
if ARGV[4] ~= '' then seats_keep(KEYS[#KEYS], ARGV[2], ARGV[4], ARGV[5] or '') end
redis.call('PEXPIRE', KEYS[2], ARGV[1])
if ARGV[5] then
  -- Takes no tray of a name under rescue: a message that stays behind would seem to have been alone, and would be charged.
  local rescued = redis.call('HEXISTS', KEYS[1], ARGV[6]) == 1
  for i = 0, 2 do
    if not rescued and redis.call('EXISTS', KEYS[7 + i]) == 1 then
      redis.call('RENAME', KEYS[7 + i], KEYS[3 + i])
    end
  end
  redis.call('DEL', KEYS[6])
  local ok, old = pcall(cjson.decode, redis.call('HGET', KEYS[1], ARGV[5]) or '')
  if ok and type(old) == 'table' then       -- kept for an hour: a late answer may still fill its trays
    local t = redis.call('TIME')
    redis.call('HSET', KEYS[2], 'untouched', (rescued or old.died_at) and 0 or 1)     -- the answer, also if it is asked again
    old.died_at = t[1] * 1000 + math.floor(t[2] / 1000)
    redis.call('HSET', KEYS[1], ARGV[5], cjson.encode(old))
  end
end
return tonumber(redis.call('HGET', KEYS[2], 'untouched') or 0)
