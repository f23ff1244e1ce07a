-- KEYS: none delayed ingress
-- ARGV: limit bytes [plain [line ours ...]]
-- Moves messages from delayed to ingress (delayed.lua), also those that are not due yet. Returns how many were moved.
local times = take_delayed(math.huge)
return times.err and times or #times
