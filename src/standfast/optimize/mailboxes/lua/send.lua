-- Add messages to the end of the queue. ARGV[4..]: id, body, id, body, …
-- Returns how many were added; -1 if the mailbox must be registered and is not, -2 if its owner closed it.
local previous = previous_answer()
if previous then return previous end
if ARGV[3] == '1' then
  local registered = redis.call('GET', KNOWN)
  if not registered then return answer(-1) end
  if registered == 'closed' then return answer(-2) end
end
local pairs_of_bodies, ids = {}, {}
for index = 4, #ARGV, 2 do
  ids[#ids + 1] = ARGV[index] .. ':0'
  pairs_of_bodies[#pairs_of_bodies + 1] = ARGV[index]
  pairs_of_bodies[#pairs_of_bodies + 1] = ARGV[index + 1]
end
redis.call('HSET', BODIES, unpack(pairs_of_bodies))
redis.call('RPUSH', READY, unpack(ids))
wake()
return answer(#ids)
