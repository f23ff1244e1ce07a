-- KEYS: schedules ingress
-- ARGV: name definition last tick missed message
-- Pushes the message of a schedule, and records its tick, in one step. tick '': only looks. message '': the tick is missed, too. The record of a
-- schedule is DEFINITION LAST PUSHED MISSED: its times, its last tick, the last one that was pushed (0: none), both in ms since 1970, and how many were
-- not. A schedule that is new, or has other times, begins now: what came before is no tick of it. If the last tick is not the one that the caller
-- knows, another sweeper was faster, or Redis went back: the caller decides anew by the record. Returns 1 (ticked), 2 (began) or 0, the time, the record.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local record = redis.call('HGET', KEYS[1], ARGV[1])
local definition, last, pushed, missed = string.match(record or '', '^(%x+) (%d+) (%d+) (%d+)$')
if definition ~= ARGV[2] then
  record = string.format('%s %.0f 0 0', ARGV[2], now)
  redis.call('HSET', KEYS[1], ARGV[1], record)
  return { 2, now, record }
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
