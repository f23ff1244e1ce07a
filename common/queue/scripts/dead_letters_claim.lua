-- KEYS: none escape log claimed sweeper
-- ARGV: lead owner fresh from message sha1 id [message sha1 id ...]
-- Claims dead letters that node `owner` is going to archive. redrive.lua does not move a claimed one, until dead_letters_remove.lua removes it
-- or the claim is released. Claims only those whose message and record are still there; `from`: as in dead_letters_remove.lua. fresh "1": drops
-- all earlier claims first, also those of the leader before. Returns the ids that are claimed: none if sweeper `lead` does not have the lead
-- (lead.lua), since the present leader may be writing what it has claimed.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
if redis.call('GET', KEYS[5]) ~= ARGV[1] then return {} end
if ARGV[3] == '1' then redis.call('DEL', KEYS[4]) end
local taken, ids = {}, {}
local function take(message)                -- each of several equal messages belongs to one record
  for at = -1, tonumber(ARGV[4]), -1 do
    local entry = not taken[at] and redis.call('LINDEX', KEYS[2], at)
    if entry == message then
      taken[at] = true
      return true
    end
  end
end
for i = 5, #ARGV, 3 do
  if #redis.call('XRANGE', KEYS[3], ARGV[i + 2], ARGV[i + 2]) == 1 and take(ARGV[i]) then
    redis.call('HSET', KEYS[4], ARGV[i + 2], ARGV[i + 1])
    ids[#ids + 1] = ARGV[i + 2]
  end
end
if #ids > 0 then redis.call('HSET', KEYS[4], 'owner', ARGV[2]) end
return ids
