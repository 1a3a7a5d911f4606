-- Turn a leased message into a dead letter. ARGV[4..6]: receipt, reason, problem. Returns 0 if the receipt is stale.
local previous = previous_answer()
if previous then return previous end
local receipt = ARGV[4]
if not is_leased(receipt) then return answer(0) end
redis.call('ZREM', LEASED, receipt)
local id, count = parts(receipt)
bury(id, count, ARGV[5], ARGV[6])
return answer(1)
