-- This text is put before each script that moves an entry to escape which no process has read (UNREAD in common/queue/scripts.h). A
-- wrapper, up to 1 KiB, does not count and must not get into escape, but Redis cannot verify its seal. So if an entry begins like one,
-- nothing moves at first: the caller gets the beginning, and calls again with it as head and with the bytes to strip.
local function begins_like_wrapper(entry) return string.sub(entry, 1, 12) == 'quredis/1 w=' end
local function is_longer(entry, limit) return #entry > limit + (begins_like_wrapper(entry) and 1024 or 0) end
-- Returns the bytes that go into escape; nil and the beginning: the caller must judge that first.
local function letter_of(entry, head, strip)
  local first = begins_like_wrapper(entry) and string.sub(entry, 1, 1024)
  if first and first ~= head then return nil, first end
  return first and strip ~= '0' and string.sub(entry, strip + 1) or entry
end
-- Writes the record of what escaped, `size` bytes, from the fields ARGV[from...], if any. Adds id, sha1 and size, and the size at the
-- beginning of error_message. letter: its bytes; nil: not read. No sha1 above 16 MiB: it would take too long.
-- Returns the answer of the script: {size, '', 1}; {size, '', 2}: the record could not be written.
local function recorded(log, size, letter, from)
  local sha1 = letter and ARGV[from] and size <= 16777216 and redis.sha1hex(letter) or ''
  for i = from, #ARGV, 2 do
    if ARGV[i] == 'error_message' then ARGV[i + 1] = size .. ' ' .. ARGV[i + 1] end
  end
  local fields = ARGV[from] and { 'id', sha1 ~= '' and 'sha1:' .. sha1 or '', 'sha1', sha1, 'size', size, unpack(ARGV, from) } or {}
  return { size, '', write_record(log, fields) }
end
