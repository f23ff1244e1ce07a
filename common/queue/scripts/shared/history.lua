-- This text is put before the scripts that acknowledge messages one by one (HISTORY in common/queue/scripts.h). From ARGV[first] on:
-- keep worker node n_notes [note ...] [id finished_at duration_ms attempts sha1 size payload root depth ...]
-- acknowledged() forgets the notes of messages that are done, and adds them to the history. Returns 1; 2: the history could not be written.
local function acknowledged(done, notes, first)
  local keep, worker, node, n = unpack(ARGV, first, first + 3)
  local entries = first + 4 + n
  if n ~= '0' then redis.pcall('HDEL', notes, unpack(ARGV, first + 4, entries - 1)) end
  for i = entries, #ARGV, 9 do
    local below = ARGV[i + 7] ~= '' and { 'root', ARGV[i + 7], 'depth', ARGV[i + 8] } or {}     -- a handler emitted it
    local id = redis.pcall('XADD', done, 'MAXLEN', '~', keep, '*', 'id', ARGV[i], 'finished_at', ARGV[i + 1],
      'duration_ms', ARGV[i + 2], 'attempts', ARGV[i + 3], 'worker', worker, 'node', node, 'sha1', ARGV[i + 4],
      'size', ARGV[i + 5], 'message', ARGV[i + 6], unpack(below))
    if type(id) == 'table' then return 2 end
  end
  return 1
end
