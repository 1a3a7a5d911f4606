-- Remove leased messages. ARGV[4]: their receipts, separated by spaces. Returns the stale receipts.
local previous = previous_answer()
if previous then return previous end
local receipts = {}
for receipt in string.gmatch(ARGV[4], '%S+') do receipts[#receipts + 1] = receipt end
local ends = redis.call('ZMSCORE', LEASED, unpack(receipts))
local settled, ids, stale, seen = {}, {}, {}, {}
for index, receipt in ipairs(receipts) do
  if ends[index] and tonumber(ends[index]) > now and not seen[receipt] then
    seen[receipt] = true
    settled[#settled + 1] = receipt
    ids[#ids + 1] = parts(receipt)
  else
    stale[#stale + 1] = receipt
  end
end
if #settled > 0 then
  redis.call('ZREM', LEASED, unpack(settled))
  redis.call('HDEL', BODIES, unpack(ids))
  if redis.call('EXISTS', ALLOWED) == 1 then redis.call('HDEL', ALLOWED, unpack(ids)) end
end
return answer(stale)
