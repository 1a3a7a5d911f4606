-- Add messages to the end of the queue. ARGV[4]: after how many ms, ARGV[5]: how many messages there may be (0: no bound),
-- ARGV[6..]: id, body, id, body, …
-- Returns how many were added; -1 if the mailbox must be registered and is not, -2 if its owner closed it, -3 if there is no room.
local previous = previous_answer()
if previous then return previous end
if ARGV[3] == '1' then
  local registered = redis.call('GET', KNOWN)
  if not registered then return answer(-1) end
  if registered == 'closed' then return answer(-2) end
end
local delay_ms, max_size = tonumber(ARGV[4]), tonumber(ARGV[5])
local size = redis.call('HLEN', BODIES) - redis.call('ZCARD', DEAD)
if max_size > 0 and size + (#ARGV - 5) / 2 > max_size then return answer(-3) end
local pairs_of_bodies, ids, delayed = {}, {}, {}
for index = 6, #ARGV, 2 do
  ids[#ids + 1] = ARGV[index] .. ':0'
  pairs_of_bodies[#pairs_of_bodies + 1] = ARGV[index]
  pairs_of_bodies[#pairs_of_bodies + 1] = ARGV[index + 1]
  delayed[#delayed + 1] = now + delay_ms
  delayed[#delayed + 1] = ids[#ids]
end
redis.call('HSET', BODIES, unpack(pairs_of_bodies))
if delay_ms > 0 then
  redis.call('ZADD', DELAYED, unpack(delayed))
else
  redis.call('RPUSH', READY, unpack(ids))
end
wake()
return answer(#ids)
