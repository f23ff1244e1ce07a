-- KEYS: lease tray target
-- ARGV: message emitted ...
-- Acknowledges a message and pushes what its handler emitted, as emit.lua does, where the message is named by its value, and all of it goes to one list without
-- a delay, and there is no history or note. It is short because most emissions are such, and Redis spends more on a table or function of Lua than on a command.
local call, counted, gone, name = redis.pcall, redis.pcall('HINCRBY', KEYS[1], KEYS[2], 1), nil, 'LTRIM'
if type(counted) ~= 'table' then
  gone = counted == 1 and call('PTTL', KEYS[1]) == -1 and call('DEL', KEYS[1])
elseif counted.err:find('WRONGTYPE') then
  gone = true
else
  counted.err = counted.err .. ", command 'HINCRBY' of a script"
  return counted
end
local answer = call('LTRIM', KEYS[3], 0, -1)            -- changes nothing: the right to take the push back
if answer.ok then
  name, answer = 'LPUSH', call('LPUSH', KEYS[3], unpack(ARGV, 2))
  if type(answer) == 'number' then
    name, answer = 'LREM', call('LREM', KEYS[2], -1, ARGV[1])
    if answer == 1 then return 1 end
    redis.call('LTRIM', KEYS[3], #ARGV - 1, -1)
  end
end
if not gone then redis.call('HINCRBY', KEYS[1], KEYS[2], -1) end
if answer ~= 0 then answer.err = answer.err .. ", command '" .. name .. "' of a script" .. (name == 'LREM' and '' or ', push to ' .. KEYS[3]) end
return answer
