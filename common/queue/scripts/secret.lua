-- KEYS: none secret schema
-- ARGV: fresh known own lowest reads
-- Checks the layout of the keys first (shared/layout.lua), and raises it if there is a `fresh`.
-- Reads and completes the secrets that seal the lines before messages: hexadecimal words separated by blanks, newest first. Appends
-- those that the caller knows and Redis lacks, up to eight in all. Writes `fresh` only if there is no secret at all, so that two
-- callers that race get the same one. Returns the list; '': there is none, fresh is empty, and nothing was written.
local refused = layout_refuses(KEYS[3], KEYS[2], KEYS[1], ARGV[3], ARGV[4], ARGV[5], ARGV[1] ~= '')
if refused then return refused end
local kind = redis.call('TYPE', KEYS[2]).ok
if kind ~= 'string' and kind ~= 'none' then
  return redis.error_reply('WRONGTYPE ' .. KEYS[2] .. ' is a ' .. kind .. ', not a string: rename or remove it')
end
local there = redis.call('GET', KEYS[2]) or ''
local list, have = {}, {}
for word in string.gmatch(there .. ' ' .. ARGV[2], '%S+') do
  if #word == 64 and not string.find(word, '[^0-9a-f]') and not have[word] and #list < 8 then
    have[word] = true
    list[#list + 1] = word
  end
end
if #list == 0 and ARGV[1] ~= '' then list[1] = ARGV[1] end
local text = table.concat(list, ' ')
if text ~= '' and text ~= there then
  redis.call('DEL', KEYS[1])                -- never there: a first write that maxmemory allows
  redis.call('SET', KEYS[2], text)
end
return text
