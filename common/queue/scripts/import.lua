-- KEYS: operations ingress
-- ARGV: field expected position keep_ms [message ...]
-- Pushes messages of a file whose import has come to `expected` ('': it has not begun), and notes the position behind them.
-- Returns 1; 0, and nothing changes, if the noted position is another one: another process has pushed these messages, or an
-- earlier call whose answer got lost, or Redis went back.
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
-- The push is the first write: where memory is full Redis refuses it, and then nothing happened.
if #ARGV > 4 then redis.call('LPUSH', KEYS[2], unpack(ARGV, 5)) end
local noted = redis.pcall('HSET', KEYS[1], ARGV[1], ARGV[3])
if type(noted) == 'table' then              -- refused: the copies must not stay, or the next call would push them again
  for _ = 5, #ARGV do redis.call('LPOP', KEYS[2]) end
  return noted
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
