-- Remove every message except dead letters. Returns how many there were.
local previous = previous_answer()
if previous then return previous end
local purged = 0
local function drop(entries)
  for index = 1, #entries, 1000 do
    local ids = {}
    for place = index, math.min(index + 999, #entries) do ids[#ids + 1] = parts(entries[place]) end
    redis.call('HDEL', BODIES, unpack(ids))
    redis.call('HDEL', ALLOWED, unpack(ids))
  end
  purged = purged + #entries
end
drop(redis.call('LRANGE', READY, 0, -1))
drop(redis.call('ZRANGE', LEASED, 0, -1))
drop(redis.call('ZRANGE', DELAYED, 0, -1))
redis.call('DEL', READY, LEASED, DELAYED, WAKE)
return answer(purged)
