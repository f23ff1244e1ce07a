-- KEYS: none secret schema registry [trace ...]
-- ARGV: fresh known own lowest reads anew [type of each trace]
-- Checks the layout of the keys first (shared/layout.lua), and raises it at the end if there is a `fresh`.
-- Reads and completes the secrets that seal the lines before messages: hexadecimal words separated by blanks, newest first. Appends those that the caller knows
-- and Redis lacks, up to eight in all. Writes `fresh` only if the caller names the traces that quredis leaves, and none of them is there, nor schema: else the
-- secret was lost. anew '1': an operator wants a new one all the same. Returns the list; '': there is none, and fresh is empty; without traces the last 1,000
-- names in the registry, so that the caller can ask again with traces. A secret that is lost or damaged is an error SECRET; if fresh is empty, that text.
local refused = layout_refuses(KEYS[3], KEYS[2], KEYS[1], ARGV[3], ARGV[4], ARGV[5], false)
if refused then return refused end
local kind, list, have, why = redis.call('TYPE', KEYS[2]).ok, {}, {}, nil
local there = kind == 'string' and redis.call('GET', KEYS[2]) or ''
for word in string.gmatch(there .. ' ' .. ARGV[2], '%S+') do
  if #word == 64 and not string.find(word, '[^0-9a-f]') and not have[word] and #list < 8 then
    have[word] = true
    list[#list + 1] = word
  end
end
if kind ~= 'string' and kind ~= 'none' then why = ' is a ' .. kind .. ', not a string: rename it, then restore the key'
elseif #list == 0 and kind == 'string' then why = ' holds no secret: restore the key'
elseif #list == 0 and ARGV[6] ~= '1' then
  local trace = redis.call('EXISTS', KEYS[3]) == 1 and KEYS[3] or traces(5, 7)
  if not trace and not KEYS[5] then return redis.call('TYPE', KEYS[4]).ok == 'zset' and redis.call('ZRANGE', KEYS[4], -1000, -1) or {} end
  why = trace and ' is missing, but quredis was here (' .. trace .. '): restore the key'
end
if why then why = 'SECRET ' .. KEYS[2] .. why .. ', or run quredis doctor --fix' end
if why then return ARGV[1] ~= '' and redis.error_reply(why) or why end
if #list == 0 and ARGV[1] ~= '' then list[1] = ARGV[1] end
local text = table.concat(list, ' ')
if text ~= '' and text ~= there then redis.call('DEL', KEYS[1]) redis.call('SET', KEYS[2], text) end     -- DEL: a first write that maxmemory allows
return ARGV[1] ~= '' and layout_refuses(KEYS[3], kind == 'none' and KEYS[1] or KEYS[2], KEYS[1], ARGV[3], ARGV[4], ARGV[5], true) or text
