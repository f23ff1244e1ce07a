-- KEYS: lease list
-- ARGV: at len head tail [from ...]
-- Computes the SHA1 of a message of a dead owner from each of these offsets to its end, so that its payload need not leave Redis. The
-- first four arguments name the message (shared/entry.lua). The lease is deleted, as by all scripts of a rescue: a key of another
-- type in its place would hide the message. Returns one SHA1 for each offset, in hex; '' if the message is not there.
redis.call('DEL', KEYS[1])
local entry = entry_named(KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4])
local sums = {}
for i = 5, #ARGV do sums[i - 4] = entry and redis.sha1hex(changed(entry, '', ARGV[i])) or '' end
return sums
