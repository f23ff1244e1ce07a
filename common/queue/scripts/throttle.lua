-- KEYS: none throttle [ingress]
-- ARGV: wanted appointment count each burst figures
-- Gives starts of handlers: one each `each` us and `burst` at once, by the clock of Redis. With ingress, no more than messages wait there; without, 0
-- wanted announces figures, and gives back. Returns { starts, wait, appointment, now }. starts -1: no message waits. 0: the next is due in `wait` us; if that
-- is soon, it is kept for this worker, which asks again then. count: starts of this appointment that the worker has not used. More than 50 ms late they would
-- come together with those after them: the script takes them back if there are none, also if no message waits, else they are lost. figures: `loaded` (ms since
-- 1970), n, per (us), burst, host: of different ones the last loaded count. The key outlives a burst by a day: until when starts are given, last look, figures.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local wanted, t, at, count = tonumber(ARGV[1]), redis.call('TIME'), tonumber(ARGV[2]), tonumber(ARGV[3])
local now, each, burst, figures = t[1] * 1000000 + t[2], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
if KEYS[3] then wanted = math.min(wanted, redis.call('LLEN', KEYS[3])) end
if KEYS[3] and wanted <= 0 and count == 0 then return { -1, 0, 0, now } end
local given, seen, known = (redis.call('GET', KEYS[2]) or '0 0 '):match('^(%d+) (%d+) (.*)$')
if known and known ~= figures then
  local loaded, n, per, b = known:match('^(%d+) ([1-9]%d*) ([1-9]%d*) ([1-9]%d*) %S+$')
  if loaded and loaded - figures:match('^%d+') > 0 and loaded + 0 < now / 1000 + 60000 then each, burst, figures = per / n, tonumber(b), known end
end
local full, horizon, early = now + burst * each, 2000000, at - now - burst * each       -- a whole burst was given just now; the start is due later
local back, booked = now < tonumber(seen or 0), at <= tonumber(given or 0) and count or 0
if booked > 0 and wanted > 0 and not back and early > 1000 and early <= horizon then return { 0, math.ceil(early), at, now } end
local kept = early <= 1000 and early >= -50000 and math.min(booked, wanted) or 0        -- otherwise the clock was set meanwhile, or the worker is late
given = math.max(tonumber(given or 0) - (kept == 0 and at == tonumber(given) and booked or 0) * each, now)
-- The clock was set back, or other figures count now: at most a burst of the new ones is taken for given.
if back or given > full + horizon then given = math.min(given, full) end
local new = math.max(0, math.min(wanted - kept, math.floor((full - given + 1) / each)))
local wait = kept + new == 0 and math.ceil(given + each - full) or 0
local keeps = wanted > 0 and wait > 0 and wait <= horizon
given = string.format('%.0f', given + (keeps and 1 or new) * each)
redis.call('SET', KEYS[2], given .. string.format(' %.0f ', now) .. figures, 'PX', math.ceil(86400000 + (given - now) / 1000))
return { KEYS[3] and wanted <= 0 and -1 or kept + new, wait, (keeps or new > 0) and tonumber(given) or kept > 0 and at or 0, now }
