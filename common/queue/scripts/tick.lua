-- KEYS: schedules ingress
-- ARGV: name definition last tick missed message ahead(ms)
-- Pushes the message of a schedule, and records its tick, in one step. tick '': only looks. message '': the tick is missed, too. The record of a
-- schedule is DEFINITION LAST PUSHED MISSED: its times, its last tick, the last one that was pushed (0: none), both in ms since 1970, and how many were
-- not. A schedule begins now, and what came before is no tick of it, if it is new, if it has other times, if quredis did not write the record in just
-- these bytes, or if its last tick is more than that ahead of the clock, and would stop it until then. If the last tick is not the one that the caller knows,
-- another sweeper was faster, or Redis went back: the caller decides anew by the record. Returns how it ended (enum queue_tick_end), the time, the record.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local record = redis.call('HGET', KEYS[1], ARGV[1])
local definition, last, pushed, missed = string.match(record or '', '^(%x+) (%d+) (%d+) (%d+)$')
local known = definition and string.format('%s %.0f %.0f %.0f', definition, last, pushed, missed) == record
known = known and tonumber(pushed) <= tonumber(last) and tonumber(missed) < 2 ^ 53
local began = not record and 2 or not known and 4 or definition ~= ARGV[2] and 3 or tonumber(last) > now + ARGV[7] and 5
if began then
  record = string.format('%s %.0f 0 0', ARGV[2], now)
  redis.call('HSET', KEYS[1], ARGV[1], record)
  return { began, now, record }
end
if ARGV[4] == '' or last ~= ARGV[3] or tonumber(ARGV[4]) > now then return { 0, now, record } end
local ticked = string.format('%s %s %s %.0f', definition, ARGV[4], ARGV[6] == '' and pushed or ARGV[4], missed + ARGV[5])
redis.call('HSET', KEYS[1], ARGV[1], ticked)
local refused = ARGV[6] ~= '' and redis.pcall('LPUSH', KEYS[2], ARGV[6])
if type(refused) == 'table' then
  redis.call('HSET', KEYS[1], ARGV[1], record)
  return refused
end
return { 1, now, ticked }
