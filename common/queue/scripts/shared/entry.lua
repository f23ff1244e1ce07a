-- This text is put before each script that moves one message out of a list (ENTRY in common/queue/scripts.h). Four of their
-- ARGV name the message, so that a large payload need not go back to Redis:
-- at: its index in the list, as for LINDEX. '': head is the whole message, which is found by its value. The owner of a tray
-- writes index/length/moved: how many entries the tray has, and how many left it alive under the lease KEYS[1], as the
-- lease counts them (done.lua). If either differs, Redis has returned to an earlier state, and the place proves nothing.
-- len head tail: the size of the entry at that index in bytes, its first bytes and its last bytes. If one differs, another
-- message is there. entry_named() returns the entry; else nil and the answer of the script. 0: the list is empty, so the message is not there. -2: the
-- script cannot tell, and the caller reads the list before it decides. index_expected() returns the index if the tray is as its owner knows it, else nil.
local function index_expected(list, at)
  local index, length, moved = string.match(at, '^(-?%d+)/?(%d*)/?(%d*)$')
  if not index or length == '' then return index end
  local counted = redis.pcall('HGET', KEYS[1], list) or 0
  if type(counted) == 'table' or tonumber(counted) ~= tonumber(moved) then return nil end
  return redis.call('LLEN', list) == tonumber(length) and index
end
local function entry_named(list, at, len, head, tail)
  if at == '' then return head end          -- LREM tells whether it is there
  local index = index_expected(list, at)
  local entry = index and redis.call('LINDEX', list, index)
  local same = entry and #entry == tonumber(len) and string.sub(entry, 1, #head) == head and (tail == '' or string.sub(entry, -#tail) == tail)
  if same then return entry end
  return nil, redis.call('EXISTS', list) == 0 and 0 or -2
end
-- Returns the entry with line in place of its first `strip` bytes. Each string that Lua makes costs 2 ms per MiB, so it makes
-- none without need.
local function changed(entry, line, strip)
  if strip ~= '0' then entry = string.sub(entry, strip + 1) end
  return line == '' and entry or line .. entry
end
