-- Lease messages. ARGV[4..7]: how many, for how many ms, how many deliveries a message may have, whether the
-- receiver stops waiting ('1').
-- Returns the receipts, the lengths of the bodies, the bodies in one string, and the ms until the next lease or delay ends.
local max, visibility_ms, deliveries = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local leaving = ARGV[7] == '1'

-- Leased and delayed messages that are due become ready, ahead of new ones: first due, first out.
local function requeue_due()
  local due = {}
  for _, hidden in ipairs({LEASED, DELAYED}) do
    local found = redis.call('ZRANGEBYSCORE', hidden, '-inf', now, 'WITHSCORES')
    for index = 1, #found, 2 do due[#due + 1] = {tonumber(found[index + 1]), found[index]} end
    if #found > 0 then redis.call('ZREMRANGEBYSCORE', hidden, '-inf', now) end
  end
  table.sort(due, function(a, b) return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2]) end)
  for index = #due, 1, -1 do redis.call('LPUSH', READY, due[index][2]) end
end

local leased, bodies = previous_answer(), {}

local function lease(entries)
  local ids, counts = {}, {}
  for index, entry in ipairs(entries) do ids[index], counts[index] = parts(entry) end
  local found = redis.call('HMGET', BODIES, unpack(ids))
  local has_redriven = redis.call('EXISTS', ALLOWED) == 1
  local until_ms = string.format('%.0f', now + visibility_ms)
  local scores = {}
  for index, id in ipairs(ids) do
    local count = counts[index]
    local allowed = has_redriven and tonumber(redis.call('HGET', ALLOWED, id)) or deliveries
    if not found[index] then
      redis.call('HSET', BODIES, id, entries[index])
      bury(id, count, 'undecodable', 'it was pushed to the list without a body')
    elseif count >= allowed then
      bury(id, count, 'delivered_too_often', 'delivered ' .. count .. ' times and never acknowledged')
    else
      local receipt = id .. ':' .. (count + 1)
      leased[#leased + 1] = receipt
      bodies[#leased] = found[index]
      scores[#scores + 1] = until_ms
      scores[#scores + 1] = receipt
    end
  end
  if #scores > 0 then redis.call('ZADD', LEASED, unpack(scores)) end
end

if leased then
  -- A repeated call. A message that was settled since has no body, and nobody waits for it.
  for index, receipt in ipairs(leased) do
    bodies[index] = redis.call('HGET', BODIES, (parts(receipt))) or ''
  end
else
  local next_end_before = math.min(first_score(LEASED), first_score(DELAYED))
  requeue_due()
  leased = {}
  while #leased < max do
    local entries = redis.call('LPOP', READY, max - #leased)
    if not entries or #entries == 0 then break end
    lease(entries)
  end
  -- Waiting receivers must look again if something is ready, or if the next lease ends earlier than they know.
  local next_end = math.min(first_score(LEASED), first_score(DELAYED))
  local sooner = next_end < next_end_before or (leaving and #leased == 0 and next_end < math.huge)
  if sooner or redis.call('EXISTS', READY) == 1 then wake() else redis.call('DEL', WAKE) end
  answer(leased)
end

-- Clients parse a few long strings many times faster than many short ones.
local lengths = {}
for index, body in ipairs(bodies) do lengths[index] = #body end
local next_end = math.min(first_score(LEASED), first_score(DELAYED))
local wait_ms = -1
if next_end < math.huge then wait_ms = math.max(next_end - now, 0) end
return {table.concat(leased, ' '), table.concat(lengths, ' '), table.concat(bodies), wait_ms}
