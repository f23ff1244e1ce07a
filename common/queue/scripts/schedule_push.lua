-- KEYS: ingress [delayed workers list ...]
-- ARGV: name message registered
-- Pushes a message of a schedule that an operator asks for. It is no tick, so no record changes. With the keys of shared/overlap.lua it is not pushed while
-- an earlier one is in the queue, or if nobody can tell. message '': only tells. Returns how it ended (enum queue_tick_end), 0, '', the SHA-1, the fields.
local there, sum, fields = 0, nil, nil
if KEYS[2] then there, sum, fields = overlaps(2, ARGV[1], ARGV[3]) end
if not there then return { 8, 0, '', sum, fields } end
if there > 0 then return { there + 5 } end
if ARGV[2] ~= '' then redis.call('LPUSH', KEYS[1], ARGV[2]) end
return { 1 }
