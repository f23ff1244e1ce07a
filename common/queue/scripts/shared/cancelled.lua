-- This text is put before the scripts that may execute an order to cancel their message (CANCELLED in common/queue/scripts.h). cancelled() returns what
-- transfer() writes together with the move: `result` in place of the order, as of now. nil: none is executed, or another order or none stands there. So a
-- worker that dies, whenever that is, leaves the order if the message has not moved, and the result if it has.
local function cancelled(cancels, field, order, result)
  local found = field ~= '' and redis.pcall('HGET', cancels, field)
  if type(found) ~= 'string' or string.match(found, '^%d+ (.*)$') ~= order then return nil end
  local t = redis.call('TIME')
  return { 'HSET', cancels, field, string.format('%.0f ', t[1] * 1000 + math.floor(t[2] / 1000)) .. result }
end
