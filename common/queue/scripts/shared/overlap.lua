-- This text is put before each script that pushes the message of a schedule with `overlap = false` (OVERLAP in common/queue/scripts.h).
-- KEYS[from] is the delayed set, KEYS[from + 1] the workers hash; then each list where a message of the queue may be, trays and rescue lists by the
-- workers hash, ingress last. registered is the SHA-1 of that hash's fields for which the caller named the keys: if it differs, the caller gets the new
-- one and the fields, and asks again. So the script sees all places of one moment. It tells by the lines before the messages whether one is of this
-- schedule. A forged line counts until its message escapes. Returns 0: none; 1: one is there; 2: nobody can tell, as there are more entries than a
-- script may read; nil, the SHA-1 and the fields.
local function overlaps(from, name, registered)
  local fields = redis.call('HKEYS', KEYS[from + 1])
  table.sort(fields)
  local sum, wanted, entries, bytes, step = redis.sha1hex(table.concat(fields, '\n')), ' schedule=' .. name .. ' ', 0, 0, 1
  if sum ~= registered then return nil, sum, fields end
  for i = from, #KEYS do
    local at, page = 0, nil
    while i ~= from + 1 and (not page or #page > 0) do
      page = redis.call(i == from and 'ZRANGE' or 'LRANGE', KEYS[i], at, at + step - 1)
      for _, entry in ipairs(page) do
        local line = string.sub(entry, 1, 12) == 'quredis/1 w=' and string.match(string.sub(entry, 1, 1024), '^[^\n]*')
        if line and string.find(line, wanted, 1, true) then return 1 end
        bytes = bytes + #entry
      end
      at, entries = at + #page, entries + #page
      if entries > 10000 or bytes > 4194304 then return 2 end
      step = bytes / math.max(1, entries) > 4096 and 1 or math.min(step * 4, 100)      -- few at once: what comes next may be large
    end
  end
  return 0
end
