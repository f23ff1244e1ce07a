-- This text is put before emit.lua (EMITTED in common/queue/scripts.h). ARGV[first] to ARGV[last] are what a handler emitted, as emit.lua names it.
-- run(name, ...): a command of Redis. Returns the answer, and again if it is an error, which names the command.
local function run(name, ...)
  local answer = redis.pcall(name, ...)
  if type(answer) ~= 'table' or not answer.err then return answer end
  answer.err = answer.err .. ", command '" .. name .. "' of a script"
  return answer, answer
end
-- emitted_each(first, last, act): act(key, delay, at, to) for each push of ARGV[at] to ARGV[to], until one returns an error: the error, which names the key.
local function emitted_each(first, last, act)
  local at = first
  while at <= last do
    local key, to = KEYS[tonumber(ARGV[at])], at + 2 + ARGV[at + 2]
    local refused = act(key, ARGV[at + 1], at + 3, to)
    if refused then refused.err = refused.err .. ', push to ' .. key return refused end
    at = to + 1
  end
end
-- emitted_stays(key, delayed, asked): the error if Redis would refuse to take back what is pushed to the key, as half of what was emitted must not stay.
-- The commands change nothing: a list keeps all, and no delayed message is empty. They tell the type of the key, too.
local function emitted_stays(key, delayed, asked)
  if asked[key] then return nil end
  asked[key] = true
  if delayed then return select(2, run('ZREM', key, '')) end
  return select(2, run('LTRIM', key, 0, -1))
end
