-- This text is put before each script that moves a message (TRANSFER in common/queue/scripts.h). transfer() copies first and removes second, so that the
-- message always is somewhere. If the removal finds nothing or is refused, it takes back what it added, else each try would add one more.
-- remove: the command that removes the message; it answers 1, or OK. The others add, each in turn: LPUSH, RPUSH, ZADD with NX and one member, HSET with
-- one field; nil at the end: none. Returns nil: done; else nothing has changed: 0: the message is not there; or the error of Redis, and its command.
local function undo(put)
  local name, key = put[1], put[2]
  if name == 'LPUSH' then redis.pcall('LPOP', key)
  elseif name == 'RPUSH' then redis.pcall('RPOP', key)
  elseif name == 'ZADD' and put.answer == 1 then redis.pcall('ZREM', key, put[5])     -- 0: an equal member was there before
  elseif name == 'HSET' and put.before then redis.pcall('HSET', key, put[3], put.before)
  elseif name == 'HSET' then redis.pcall('HDEL', key, put[3]) end
end
local function run(command)
  local answer = redis.pcall(unpack(command))
  if type(answer) ~= 'table' then return answer end
  return answer.err and { err = answer.err .. ", command '" .. command[1] .. "' of a script" } or 1
end
local function transfer(remove, ...)
  local puts, added, answer = { ... }, 0, nil
  for _, put in ipairs(puts) do if put[1] == 'HSET' then put.before = redis.call('HGET', put[2], put[3]) end end
  while puts[added + 1] and type(answer) ~= 'table' do
    answer, added = run(puts[added + 1]), added + 1
    puts[added].answer = answer
  end
  if type(answer) == 'table' then added = added - 1 else answer = run(remove) end
  if answer == 1 then return nil end
  for i = added, 1, -1 do undo(puts[i]) end
  return answer
end
