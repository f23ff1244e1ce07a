-- KEYS: lease seats free [ingress]
-- ARGV: incarnation first held wanted queue server known quiet up limit watched. known 1: the caller has just asked for `server`; 2: it wants a recount
-- Sets how many seats a name has: `wanted`, if so many are free; `held` in any case, since messages run there. With ingress, no more are added than wait
-- there. A name that has none is refused, and then names with more than they hold give these back. Returns { has, taken, limit, quiet, waiting }, but taken
-- and limit not to a name that keeps what it has, or gives all back. has -1: the name has no lease; -2: the hash is of another server, and the caller does not
-- know which is newer. A server that is new to the hash may lack what an earlier one knew: it gives no seat until a caller has known it for `quiet` ms.
-- watched: for so many it has, by clocks of its host. up: as the server tells, whose clock may have been set: counts only if no earlier server is known.
if redis.call('EXISTS', KEYS[1]) == 0 then return { -1, 0, 0, 0, 0 } end
local t, name, held, waiting = redis.call('TIME'), ARGV[1], tonumber(ARGV[3]), KEYS[4] and redis.call('LLEN', KEYS[4]) or 1000000
local now, wanted = t[1] * 1000 + math.floor(t[2] / 1000), math.min(tonumber(ARGV[4]), held + waiting)
if ARGV[7] == '0' and seats_stay(KEYS[2], name, wanted .. ' ' .. ARGV[5], ARGV[6], ARGV[10], now) then return { wanted, wanted, 0, 0, waiting } end
redis.call('HDEL', KEYS[2], '')             -- no such field: a first write that maxmemory allows
if ARGV[4] == '0' and ARGV[7] ~= '1' then return { 0, seats_leave(KEYS[2], KEYS[3], name), 0, 0, waiting } end
local server, till = (redis.call('HGET', KEYS[2], 'server') or ''):match('^(%S+) (%d+)$')
if server and server ~= ARGV[6] and ARGV[7] ~= '1' then return { -2, 0, 0, 0, 0 } end
local others, had, marks = seats_read(KEYS[2], name, tonumber(ARGV[2]))
local after = server == ARGV[6] and till == '0' and 0 or math.max(tonumber(ARGV[8]), server == ARGV[6] and #till < 8 and tonumber(till) or 0)
local up = tonumber(server and ARGV[11] or ARGV[9])
if after <= up then after = 0 end
if server ~= ARGV[6] or after ~= tonumber(till) then redis.call('HSET', KEYS[2], 'server', string.format('%s %.0f', ARGV[6], after)) end
local max, quiet = seats_limit(KEYS[2], marks.limit, ARGV[10], now), math.max(0, after - up)
local at, owner = (marks.refused or ''):match('^(%d+) (%S+)$')
if at and math.abs(now - at) >= 8000 then at = redis.call('HDEL', KEYS[2], 'refused') and nil end
local waits, has = at and owner ~= name, math.max(held, math.min(wanted, max - others))
if after > 0 or (waits and had > held and others + has >= max) then has = held end
redis.call('PEXPIRE', KEYS[2], 86400000)    -- before a seat is written there: this may be refused
if has == 0 then redis.call('HDEL', KEYS[2], name) elseif has ~= had then redis.call('HSET', KEYS[2], name, has .. ' ' .. ARGV[5]) end
if has == 0 and wanted > 0 and after == 0 then seats_refused(KEYS[2], KEYS[3], now, name) end
if at then seats_wake(KEYS[3], had - has, name) end
return { has, others + has, max, math.ceil(quiet), waiting }
