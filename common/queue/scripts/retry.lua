-- KEYS: lease tray delayed apart [paused]
-- ARGV: lease_ms at len head tail line strip delay_ms [hold]
-- Moves a message (shared/entry.lua) from the tray to delayed, due in delay_ms, with line in place of its first `strip` bytes. If the line says
-- apart=1 and the message is alone in its tray, its list is renamed and nothing copied (shared/apart.lua): then only MEMORY USAGE, at most a third
-- more than its size, tells that it is there. The lease counts the move (done.lua). With paused, the queue is then paused for delay_ms, unless an
-- operator has paused it, which has no end, or a hold ends later. Returns 1; 2: Redis refused that; 0: not there; -2: cannot tell.
local function did(...) local reply = redis.pcall(...) return type(reply) ~= 'table' or reply.ok ~= nil end
local function move_apart(due, nonce, len)
  local list, held = KEYS[4] .. ':' .. nonce, tonumber(redis.pcall('MEMORY', 'USAGE', KEYS[2], 'SAMPLES', 1)) or 0
  if not index_expected(KEYS[2], ARGV[2]) or redis.call('LLEN', KEYS[2]) ~= 1 or held < len or held > len / 3 * 4 + 65536 then return false end
  if did('HSET', KEYS[4], nonce, len - ARGV[7]) and did('RENAME', KEYS[2], list) then
    if did('RPUSH', list, ARGV[7], unpack(ARGV, 3, 5)) and did('ZADD', KEYS[3], due, ARGV[6]) then return true end
    for _, undo in ipairs({ { 'LTRIM', list, 0, 0 }, { 'RENAME', list, KEYS[2] } }) do redis.pcall(unpack(undo)) end
  end
  redis.pcall('HDEL', KEYS[4], nonce)       -- refused: all is as it was, and the message is moved as others are
end
local leased, t = redis.call('PEXPIRE', KEYS[1], ARGV[1]), redis.call('TIME')
local due = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[8])
local nonce = string.match(ARGV[6], '^quredis/1 w=(%x+)[^\n]* apart=1 ')
if not nonce or not move_apart(due, nonce, tonumber(ARGV[3])) then
  local entry, answer = entry_named(KEYS[2], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
  if not entry then return answer end
  local refused = transfer({ 'LREM', KEYS[2], -1, entry }, { 'ZADD', KEYS[3], 'NX', due, changed(entry, ARGV[6], ARGV[7]) })
  if refused then return refused end
end
if leased == 1 then redis.pcall('HINCRBY', KEYS[1], KEYS[2], 1) end
local left = KEYS[5] and redis.pcall('PTTL', KEYS[5]) or -1
if type(left) ~= 'number' then return 2 end
return (left == -1 or left >= tonumber(ARGV[8]) or did('SET', KEYS[5], ARGV[9], 'PX', ARGV[8])) and 1 or 2
