-- This text is put before the scripts that write the record of a dead letter (RECORD in common/queue/scripts.h). write_record() appends the
-- fields to the log, if there are any. Returns what the script answers: 1; 2: the message escaped, but Redis refused the record.
local function write_record(log, fields)
  local id = #fields > 0 and redis.pcall('XADD', log, '*', unpack(fields))
  return type(id) == 'table' and 2 or 1
end
