-- KEYS: none ingress
-- ARGV: line key from count lines longest
-- Walks from index `from` (the newest entry, if the list is shorter) over at most `count` entries towards the pop end, and stamps each
-- that does not begin like a wrapper and has at most `longest` bytes: shared/own.lua writes `line` and the time before it. Entries that begin
-- like a wrapper are left to the caller, which verifies them; those that begin with `line` were stamped in this round, and are skipped.
-- Ends after `lines` entries to verify, 256 KiB, or about 3 ms. Returns how many entries were stamped, the index after the walk
-- (0: the pop end), then index, size and first line of each entry to verify.
redis.call('DEL', KEYS[1])                  -- never there: a first write that maxmemory allows
local size, stamped, lines = redis.call('LLEN', KEYS[2]), 0, {}
local at, left, room, work = math.max(ARGV[3], -size), tonumber(ARGV[4]), 262144, 1000
while at < 0 and left > 0 and room > 0 and work > 0 and #lines < 3 * ARGV[5] do
  local entry = redis.call('LINDEX', KEYS[2], at)
  local line = string.match(string.sub(entry, 1, 1024), '^quredis/1 w=[^\n]*\n')
  if not line and #entry <= tonumber(ARGV[6]) then
    stamp(KEYS[2], at, ARGV[1], ARGV[2], entry)
    stamped = stamped + 1
  elseif line and string.sub(line, 1, #ARGV[1]) ~= ARGV[1] then      -- else it is one of this round
    for _, value in ipairs({ at, #entry, line }) do lines[#lines + 1] = value end
  end
  left, room = left - 1, room - #entry
  work = work - 1 - math.min(-at, size + at) / 50000        -- Redis walks to it from the nearer end
  at = at + 1
end
return { stamped, at, unpack(lines) }
