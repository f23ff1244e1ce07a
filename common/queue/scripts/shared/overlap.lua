-- Put before each script that pushes the message of a schedule with `overlap = false` (OVERLAP in common/queue/scripts.h). KEYS[from] is the delayed set,
-- KEYS[from + 1] the workers hash; then each list where a message of the queue may be, ingress last. registered is the SHA-1 of that hash's fields by which
-- the caller named the lists, so that the script sees all places of one moment. A forged line counts until its message escapes.
-- Returns 0: none; 1: one is there; 2: nobody can tell, as more is there than a script may read; nil, the SHA-1 and the fields: name the lists again.
local function is_of(entry, wanted)
  local line, at = '', 1
  while line and not (line:find(wanted, 1, true) and line:find(' mac=%x+$')) do line, at = entry:match('^(quredis/1 w=%x+ [^\n]*)\n?()', at) end
  return line
end
local function overlaps(from, name, registered)
  local fields, entries, bytes, wanted = redis.call('HKEYS', KEYS[from + 1]), redis.call('ZCARD', KEYS[from]), 0, ' schedule=' .. name .. ' '
  table.sort(fields)
  local sum = redis.sha1hex(table.concat(fields, '\n'))
  if sum ~= registered then return nil, sum, fields end
  for i = from + 2, #KEYS do entries = entries + redis.call('LLEN', KEYS[i]) end
  if entries > 10000 then return 2 end
  for i = from, #KEYS do
    local at, page, step, before = 0, nil, 1, bytes
    while i ~= from + 1 and (not page or #page > 0) do
      page = redis.call(i == from and 'ZRANGE' or 'LRANGE', KEYS[i], at, at + step - 1)
      for _, entry in ipairs(page) do
        if is_of(string.sub(entry, 1, 2048), wanted) then return 1 end
        bytes = bytes + #entry
      end
      if bytes > 4194304 then return 2 end
      at, step, before = at + #page, bytes - before < 65536 and 4 or 1, bytes      -- few at once: what comes next may be large
    end
  end
  return 0
end
