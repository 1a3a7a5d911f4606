-- Returns the oldest dead letters. ARGV[4]: how many at most.
local entries = redis.call('ZRANGE', DEAD, 0, tonumber(ARGV[4]) - 1, 'WITHSCORES')
local answer = {}
for index = 1, #entries, 2 do
  local id, count = parts(entries[index])
  answer[#answer + 1] = {
    id, entries[index + 1], redis.call('HGET', BODIES, id) or '', count, redis.call('HGET', REASONS, id)
  }
end
return answer
