-- This text is put before each script that reads delayed (APART in common/queue/scripts.h). A large message is there in two parts, since
-- to write it anew costs Redis 7 ms per MiB: in delayed its line, which says apart=1, and nothing else; in a list of its own, APART:NONCE,
-- the entry as it lay in its tray, how many of its first bytes the line replaces, and its length, first and last bytes as the worker knew them.
-- The hash APART names these lists, each with its bytes.
local function list_apart(apart, member)
  local nonce = #member <= 1024 and string.match(member, '^quredis/1 w=(%x+)[^\n]* apart=1[^\n]*\n$')
  return nonce and apart .. ':' .. nonce, nonce
end
-- Returns the payload of such a member; false if its list is gone; nil for any other member, which has its payload with it. If the entry is
-- another one than the worker knew, since Redis had returned to an earlier state, returns the entry as it is, and true: the line is not of it.
local function payload_apart(apart, member)
  local list = list_apart(apart, member)
  if not list then return nil end
  local kept = redis.pcall('LRANGE', list, 0, 4)
  if kept.err and not string.find(kept.err, 'WRONGTYPE') then redis.call('LRANGE', list, 0, 4) end     -- forbidden, so not gone
  local entry, strip, len, head, tail = unpack(kept)
  if not tail then return false end
  if #entry ~= tonumber(len) or string.sub(entry, 1, #head) ~= head or string.sub(entry, -#tail) ~= tail then return entry, true end
  return strip == '0' and entry or string.sub(entry, strip + 1)
end
-- Deletes the payload, once its member has left delayed. Redis may refuse HDEL: so each call also looks at one name, and deletes it if its list is gone.
local function delete_apart(apart, member)
  local list, nonce = list_apart(apart, member)
  if list then
    if type(redis.pcall('UNLINK', list)) == 'table' then redis.pcall('DEL', list) end
    redis.pcall('HDEL', apart, nonce)
    local left = redis.pcall('HRANDFIELD', apart)             -- unknown before Redis 6.2
    if type(left) == 'string' and redis.pcall('EXISTS', apart .. ':' .. left) == 0 then redis.pcall('HDEL', apart, left) end
  end
end
