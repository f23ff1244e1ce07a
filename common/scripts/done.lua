-- KEYS: tray done [notes]
-- ARGV: one message keep worker node n_notes [note ...] [id finished_at duration_ms attempts sha1 size payload ...]
-- The acknowledgement, of message alone or of the whole tray, and only if it took place, history; notes are forgotten.
-- Returns 1; 0: it was not there; 2: done, but history could not be written.
local n = ARGV[1] == '1' and redis.call('LREM', KEYS[1], -1, ARGV[2]) or ARGV[1] == '0' and redis.call('DEL', KEYS[1])
if n == 0 then return 0 end
local first = 7 + ARGV[6]
if KEYS[3] then redis.pcall('HDEL', KEYS[3], unpack(ARGV, 7, first - 1)) end
for i = first, #ARGV, 7 do
  local id = redis.pcall('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'id', ARGV[i], 'finished_at', ARGV[i + 1],
    'duration_ms', ARGV[i + 2], 'attempts', ARGV[i + 3], 'worker', ARGV[4], 'node', ARGV[5], 'sha1', ARGV[i + 4],
    'size', ARGV[i + 5], 'message', ARGV[i + 6])
  if type(id) == 'table' then return 2 end
end
return 1
