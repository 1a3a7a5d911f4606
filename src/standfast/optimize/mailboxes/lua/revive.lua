-- Take a dead letter out. ARGV[4]: its id, ARGV[5]: how many more deliveries it may have; 0 discards it.
-- Returns 0 if there is no such dead letter.
local previous = previous_answer()
if previous then return previous end
local id, deliveries = ARGV[4], tonumber(ARGV[5])
local note = redis.call('HGET', REASONS, id)
if not note then return answer(0) end
local count = cjson.decode(note).count
local entry = id .. ':' .. count
redis.call('HDEL', REASONS, id)
redis.call('ZREM', DEAD, entry)
if deliveries > 0 then
  redis.call('HSET', ALLOWED, id, count + deliveries)
  redis.call('RPUSH', READY, entry)
  wake()
else
  redis.call('HDEL', BODIES, id)
  redis.call('HDEL', ALLOWED, id)
end
return answer(1)
