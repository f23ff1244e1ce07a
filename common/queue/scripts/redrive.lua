-- KEYS: none escape log ingress claimed [notes]
-- ARGV: at len head tail line strip record_id sha1 [field note keep_ms]
-- Moves a dead letter (shared/entry.lua) from escape to ingress and deletes its record. line, strip, notes: as in hand_back.lua, but deletes an empty
-- note. sha1: the message must have it; '': its size and ends suffice. Moves nothing if its record is gone: then the dead letter is an equal one.
-- Returns 1; 0: the message is not there; -1: an archive has claimed it (dead_letters_claim.lua); -2: cannot tell.
redis.call('DEL', KEYS[1])
local entry, answer = entry_named(KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4])
if ARGV[7] ~= '' and #redis.call('XRANGE', KEYS[3], ARGV[7], ARGV[7]) == 0 then return 0 end
if not entry or ARGV[8] ~= '' and redis.sha1hex(entry) ~= ARGV[8] then return answer or -2 end
if redis.call('EXISTS', KEYS[5]) == 1 then
  if ARGV[7] ~= '' and redis.call('HEXISTS', KEYS[5], ARGV[7]) == 1 then return -1 end
  local sha1, claims, copies = redis.sha1hex(entry), 0, 0   -- as many equal messages as are claimed must stay
  for _, claimed in ipairs(redis.call('HVALS', KEYS[5])) do claims = claims + (claimed == sha1 and 1 or 0) end
  for at = -1, claims > 0 and -200 or 0, -1 do copies = copies + (redis.call('LINDEX', KEYS[2], at) == entry and 1 or 0) end
  if claims > 0 and copies <= claims then return -1 end
end
local refused = transfer({ 'LREM', KEYS[2], -1, entry }, { 'LPUSH', KEYS[4], changed(entry, ARGV[5], ARGV[6]) })
if refused then return refused end
if ARGV[7] ~= '' then redis.pcall('XDEL', KEYS[3], ARGV[7]) end
if KEYS[6] and ARGV[10] == '' then
  redis.pcall('HDEL', KEYS[6], ARGV[9])
elseif KEYS[6] then
  redis.pcall('HSET', KEYS[6], ARGV[9], ARGV[10])
  redis.pcall('PEXPIRE', KEYS[6], ARGV[11])
end
return 1
