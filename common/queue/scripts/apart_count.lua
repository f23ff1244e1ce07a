-- KEYS: delayed apart
-- ARGV: none
-- Returns how many payloads that are stored apart (shared/apart.lua) the hash APART names, and how many messages are delayed: both at one moment, since a
-- move in between would make them differ.
return { redis.call('HLEN', KEYS[2]), redis.call('ZCARD', KEYS[1]) }
