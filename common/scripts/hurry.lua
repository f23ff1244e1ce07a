-- KEYS: lease delayed ingress
-- ARGV: limit [plain]
-- plain: what was put before a message stays behind, since others fetch from ingress, too.
redis.call('DEL', KEYS[1])
local early = redis.call('ZRANGE', KEYS[2], 0, ARGV[1] - 1)
for _, message in ipairs(early) do
  redis.call('LPUSH', KEYS[3], ARGV[2] and string.match(message, '^quredis/1 w=[^\n]*\n(.*)$') or message)
  local removed = redis.pcall('ZREM', KEYS[2], message)
  if type(removed) == 'table' then          -- refused: the copy must not stay
    redis.call('LPOP', KEYS[3])
    return removed
  end
end
return #early
