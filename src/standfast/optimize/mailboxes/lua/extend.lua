-- Extend a lease. ARGV[4]: the receipt, ARGV[5]: the ms from now. Returns 0 if the receipt is stale.
local previous = previous_answer()
if previous then return previous end
local receipt = ARGV[4]
if not is_leased(receipt) then return answer(0) end
local sooner = now + tonumber(ARGV[5]) < first_score(LEASED)
redis.call('ZADD', LEASED, now + tonumber(ARGV[5]), receipt)
if sooner then wake() end
return answer(1)
