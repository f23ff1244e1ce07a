-- This text is put before each script that reads delayed (DELAYED in common/queue_scripts.h). A large message is there in two parts, since
-- to write it anew costs Redis 7 ms per MiB: in delayed its line, which says apart=1, and nothing else; in a list of its own, APART:NONCE,
-- the entry as it lay in its tray, and how many of its first bytes the line replaces. The hash APART names these lists, each with its bytes.
local function list_apart(apart, member)
  local nonce = #member <= 1024 and string.match(member, '^quredis/1 w=(%x+)[^\n]* apart=1[^\n]*\n$')
  return nonce and apart .. ':' .. nonce, nonce
end
-- Returns the payload of such a member; false if its list is gone; nil for any other member, which has its payload with it.
local function payload_apart(apart, member)
  local list = list_apart(apart, member)
  if not list then return nil end
  local kept = redis.pcall('LRANGE', list, 0, 1)
  return kept[2] ~= nil and (kept[2] == '0' and kept[1] or string.sub(kept[1], kept[2] + 1))
end
-- Deletes the payload, once its member has left delayed.
local function delete_apart(apart, member)
  local list, nonce = list_apart(apart, member)
  if list then
    redis.pcall('UNLINK', list)
    redis.pcall('HDEL', apart, nonce)
  end
end
