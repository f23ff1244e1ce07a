-- KEYS: schedules ingress [delayed workers list ...]
-- ARGV: name definition last tick missed message ahead(ms) registered
-- Pushes the message of a schedule, and records its tick, in one step. tick '': only looks. message '': the tick is missed, too. The record is DEFINITION
-- LAST PUSHED MISSED SKIPPED WHEN: its times, its last tick, the last one that was pushed (0: none), how many were missed, how many skipped, and the last of
-- these. A schedule begins now if it is new, if quredis did not write the record in just these bytes, or if its last tick is more than that ahead of the
-- clock; and with other times, but not before its last tick: the clock may have been set back. If it is not the one that the caller knows, the caller decides
-- anew by the record. With the keys of shared/overlap.lua the tick is skipped while a message of the schedule is there, or if nobody can tell. Returns enum
-- queue_tick_end, the time, the record, and what overlaps() returned.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local record = redis.call('HGET', KEYS[1], ARGV[1])
local is = { string.match(record or '', '^(%x+) (%d+) (%d+) (%d+) (%d+) (%d+)$') }
local known = is[1] and string.format('%s %.0f %.0f %.0f %.0f %.0f', unpack(is)) == record and is[4] + is[5] < 2 ^ 53 and math.max(is[3], is[6]) <= is[2] + 0
local began = not record and 2 or not known and 4 or is[1] ~= ARGV[2] and 3 or tonumber(is[2]) > now + ARGV[7] and 5
if began then
  record = ('%s %.0f 0 0 0 0'):format(ARGV[2], began == 3 and is[2] - now <= ARGV[7] + 0 and math.max(now, is[2]) or now)
  redis.call('HSET', KEYS[1], ARGV[1], record)
  return { began, now, record }
end
if ARGV[4] == '' or is[2] ~= ARGV[3] or tonumber(ARGV[4]) > now then return { 0, now, record } end
local there, sum, fields = 0, nil, nil
if ARGV[6] ~= '' and KEYS[3] then there, sum, fields = overlaps(3, ARGV[1], ARGV[8]) end
if not there then return { 8, now, record, sum, fields } end
local pushed, skipped = ARGV[6] ~= '' and there == 0, there > 0 and 1 or 0
local ticked = ('%s %s %s %.0f %.0f %s'):format(is[1], ARGV[4], pushed and ARGV[4] or is[3], is[4] + ARGV[5], is[5] + skipped, there > 0 and ARGV[4] or is[6])
redis.call('HSET', KEYS[1], ARGV[1], ticked)
local refused = pushed and redis.pcall('LPUSH', KEYS[2], ARGV[6])
if type(refused) == 'table' then redis.call('HSET', KEYS[1], ARGV[1], record) end
return type(refused) == 'table' and refused or { there > 0 and there + 5 or 1, now, ticked }
