-- KEYS: none delayed ingress
-- ARGV: limit bytes [plain [line ours ...]]
-- Moves messages that are due from delayed to ingress (delayed.lua). Returns for each message that was moved how many ms it was late.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local late = take_delayed(now)
for i, due in ipairs(late) do late[i] = math.min(now - due, 1e15) end
return late
