-- This text is put before each script that moves a message (TRANSFER in common/queue/scripts.h). transfer() copies first and removes second, so that the
-- message always is somewhere. If the removal finds nothing or is refused, it takes back what it added, else each try would add one more. So it adds nothing
-- that Redis would not let it take back: for each key it asks first, once, by a command that changes nothing.
-- remove: the command that removes the message; it answers 1, or OK. The others add, each in turn: LPUSH, RPUSH, ZADD with NX and one member, HSET with
-- one field; nil at the end: none. Returns nil: done; else nothing has changed: 0: the message is not there; or the error of Redis, and its command.
local may_undo = {}
local function undo_of(put, asks)           -- no delayed message is empty, and no field
  local name, key = put[1], put[2]
  if put.before then return { 'HSET', key, put[3], put.before } end
  if name == 'LPUSH' or name == 'RPUSH' then return { 'LTRIM', key, (asks or name == 'RPUSH') and 0 or 1, (asks or name == 'LPUSH') and -1 or -2 } end
  return { name == 'ZADD' and 'ZREM' or 'HDEL', key, asks and '' or name == 'ZADD' and put[5] or put[3] }
end
local function run(command)
  local answer = redis.pcall(unpack(command))
  if type(answer) ~= 'table' then return answer end
  return answer.err and { err = answer.err .. ", command '" .. command[1] .. "' of a script" } or 1
end
local function transfer(remove, ...)
  local puts, added, answer = { ... }, 0, nil
  for _, put in ipairs(puts) do
    if put[1] == 'HSET' then put.before = redis.call('HGET', put[2], put[3]) end
    may_undo[put[2]] = may_undo[put[2]] or put.before or run(undo_of(put, true))
    if type(may_undo[put[2]]) == 'table' then return may_undo[put[2]] end
  end
  while puts[added + 1] and type(answer) ~= 'table' do answer, added = run(puts[added + 1]), added + 1 puts[added].answer = answer end
  if type(answer) == 'table' then added = added - 1 else answer = run(remove) end
  if answer == 1 then return nil end
  for i = added, 1, -1 do if puts[i][1] ~= 'ZADD' or puts[i].answer == 1 then redis.call(unpack(undo_of(puts[i]))) end end     -- 0: an equal member was there
  return answer
end
