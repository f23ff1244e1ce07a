-- KEYS: none throttle [ingress]
-- ARGV: wanted appointment each burst figures
-- Gives starts of handlers: one each `each` us and `burst` at once, by the clock of Redis. With ingress, no more than messages wait there; without, 0
-- wanted only announces figures. Returns { starts, wait, appointment }. starts -1: no message waits. 0: the next one is due in `wait` us; if that is
-- soon, it is kept for this worker, which then asks again with the appointment. figures: `loaded` (ms since 1970), n, per (us), burst, host: of
-- different ones those that were loaded last count. The key: the time until which starts are given, the last look, figures. It outlives a burst by a
-- day, so that the figures that count are known.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local wanted, t, at = tonumber(ARGV[1]), redis.call('TIME'), tonumber(ARGV[2])
local now, each, burst, figures = t[1] * 1000000 + t[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
if KEYS[3] then wanted = math.min(wanted, redis.call('LLEN', KEYS[3])) end
if KEYS[3] and wanted <= 0 then return { -1, 0, 0 } end
local given, seen, known = (redis.call('GET', KEYS[2]) or ''):match('^(%d+) (%d+) (.*)$')
if known and known ~= figures then
  local loaded, n, per, b = known:match('^(%d+) ([1-9]%d*) ([1-9]%d*) ([1-9]%d*) %S+$')
  loaded = tonumber(loaded or 0)
  if loaded > tonumber(figures:match('^%d+')) and loaded < now / 1000 + 60000 then each, burst, figures = per / n, tonumber(b), known end
end
local full, horizon = now + burst * each, 2000000       -- a whole burst was given just now
given = math.max(tonumber(given or 0), now)
-- The clock was set back, or other figures count now: at most a burst of the new ones is taken for given.
if now < tonumber(seen or 0) or given > full + horizon then given = math.min(given, full) end
local kept = at > 0 and now >= at - 1000 and now <= at + math.max(each, 50000) and 1 or 0   -- otherwise the clock was set meanwhile
local new = math.max(0, math.min(wanted - kept, math.floor((full - given + 1) / each)))
local wait = kept + new == 0 and math.ceil(given + each - full) or 0
local keeps = wanted > 0 and wait > 0 and wait <= horizon
given = given + (keeps and 1 or new) * each
redis.call('SET', KEYS[2], string.format('%.0f %.0f ', given, now) .. figures, 'PX', math.ceil(86400000 + (given - now) / 1000))
return { kept + new, wait, keeps and now + wait or 0 }
