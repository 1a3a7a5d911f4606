-- Give a leased message back. ARGV[4]: its receipt, ARGV[5]: the ms until others may have it. Returns 0 if the receipt is stale.
local previous = previous_answer()
if previous then return previous end
local receipt = ARGV[4]
if not is_leased(receipt) then return answer(0) end
redis.call('ZREM', LEASED, receipt)
if tonumber(ARGV[5]) <= 0 then
  redis.call('LPUSH', READY, receipt)
else
  redis.call('ZADD', DELAYED, now + tonumber(ARGV[5]), receipt)
end
wake()
return answer(1)
