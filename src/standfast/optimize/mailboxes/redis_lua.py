"""The scripts of the Redis mailbox. Each one is atomic, in the server's memory and in its append-only file.

All keys of a mailbox share a hash tag, so that a cluster keeps them together. A message stands in one of the first four as
``id:count``, its deliveries so far; leased, that is its receipt handle. Counts only grow, so no two deliveries share one.

    ready    list    oldest first                         bodies   hash    id -> its bytes
    leased   zset    when the lease is over (ms)          allowed  hash    id -> deliveries that a redriven one may have
    delayed  zset    when it is ready again (ms)          reasons  hash    id -> why it is dead
    dead     zset    when it died (ms)                    wake     list    a token: whoever waits should look again
    caller   string  a caller's last call and its answer  known    string  it can be replied to, and lives so many ms unused;
                                                                   or it was closed, and whoever replies is told so

A caller numbers its calls. A call that comes a second time, because its answer was lost on the way, is not done again:
its answer is given again. Client libraries repeat calls on their own, so nothing less would do.
"""

import functools
from typing import Final

# The server's clock; leases are compared with no other.
SERVER_TIME: Final = "local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000)"

_PROLOGUE: Final = """
if redis.replicate_commands then redis.replicate_commands() end
local READY, LEASED, DELAYED, DEAD, BODIES, ALLOWED, REASONS, WAKE, KNOWN, CALLER = unpack(KEYS)
local call_number, memory_ms = ARGV[1], ARGV[2]
%s

local function told_before()
  local known = redis.call('GET', CALLER)
  if not known then return nil end
  local answer = cmsgpack.unpack(known)
  if answer[1] == call_number then return answer[2] end
  -- An older call that comes only now was repeated and answered long ago, and nobody waits for this one's answer.
  if tonumber(answer[1]) > tonumber(call_number) then return {} end
  return nil
end

-- Every script ends here. Temporary mailboxes live on for as long as they are used.
local function tell(answer)
  redis.call('SET', CALLER, cmsgpack.pack({call_number, answer}), 'PX', memory_ms)
  local lifetime_ms = tonumber(redis.call('GET', KNOWN) or '0') or 0
  if lifetime_ms > 0 then
    for index = 1, #KEYS - 1 do redis.call('PEXPIRE', KEYS[index], lifetime_ms) end
  end
  return answer
end

-- One token is enough: whoever takes it looks, and wakes the next if there is more.
local function wake()
  if redis.call('EXISTS', WAKE) == 0 then redis.call('RPUSH', WAKE, '1') end
end

local function parts(entry)
  local id, count = string.match(entry, '^(.+):(%%d+)$')
  -- What somebody else wrote into the list is a message too, for all we know, delivered never.
  return id or entry, tonumber(count) or 0
end

local function bury(id, count, reason, problem)
  redis.call('ZADD', DEAD, now, id .. ':' .. count)
  redis.call('HSET', REASONS, id, cjson.encode({reason = reason, problem = problem}))
end

-- Whether a receipt is the latest of its message, and its time is not over.
local function is_leased(receipt)
  local until_ms = redis.call('ZSCORE', LEASED, receipt)
  return until_ms and tonumber(until_ms) > now
end

local function first_score(zset)
  return tonumber(redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')[2]) or math.huge
end
"""

SEND: Final = """
local known = told_before()
if known then return known end
if ARGV[3] == '1' then
  local known_as = redis.call('GET', KNOWN)
  if not known_as then return tell(-1) end
  if known_as == 'closed' then return tell(-2) end
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
return tell(#ids)
"""

RECEIVE: Final = """
local max, visibility_ms, deliveries = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local leaving = ARGV[7] == '1'

-- What is hidden and due becomes ready, before what was never delivered: first due, first out.
local function surface()
  local due = {}
  for _, hidden in ipairs({LEASED, DELAYED}) do
    local found = redis.call('ZRANGEBYSCORE', hidden, '-inf', now, 'WITHSCORES')
    for index = 1, #found, 2 do due[#due + 1] = {tonumber(found[index + 1]), found[index]} end
    if #found > 0 then redis.call('ZREMRANGEBYSCORE', hidden, '-inf', now) end
  end
  table.sort(due, function(a, b) return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2]) end)
  for index = #due, 1, -1 do redis.call('LPUSH', READY, due[index][2]) end
end

local taken, bodies = told_before(), {}

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
      bury(id, count, 'undecodable', 'it was put into the list without a body')
    elseif count >= allowed then
      bury(id, count, 'delivered_too_often', 'delivered ' .. count .. ' times and never settled')
    else
      local receipt = id .. ':' .. (count + 1)
      taken[#taken + 1] = receipt
      bodies[#taken] = found[index]
      scores[#scores + 1] = until_ms
      scores[#scores + 1] = receipt
    end
  end
  if #scores > 0 then redis.call('ZADD', LEASED, unpack(scores)) end
end

if taken then
  -- What was taken before and has been settled since has no body, and nobody waits for it.
  for index, receipt in ipairs(taken) do
    bodies[index] = redis.call('HGET', BODIES, (parts(receipt))) or ''
  end
else
  local known_end = math.min(first_score(LEASED), first_score(DELAYED))
  surface()
  taken = {}
  while #taken < max do
    local entries = redis.call('LPOP', READY, max - #taken)
    if not entries or #entries == 0 then break end
    lease(entries)
  end
  -- Whoever waits must look again if something is ready, or if the next lease ends before they thought.
  local next_end = math.min(first_score(LEASED), first_score(DELAYED))
  local sooner = next_end < known_end or (leaving and #taken == 0 and next_end < math.huge)
  if sooner or redis.call('EXISTS', READY) == 1 then wake() else redis.call('DEL', WAKE) end
  tell(taken)
end

-- Few long strings are read many times faster than many short ones.
local lengths = {}
for index, body in ipairs(bodies) do lengths[index] = #body end
local next_end = math.min(first_score(LEASED), first_score(DELAYED))
local wait_ms = -1
if next_end < math.huge then wait_ms = math.max(next_end - now, 0) end
return {table.concat(taken, ' '), table.concat(lengths, ' '), table.concat(bodies), wait_ms}
"""

ACKNOWLEDGE: Final = """
local known = told_before()
if known then return known end
local receipts = {}
for receipt in string.gmatch(ARGV[4], '%S+') do receipts[#receipts + 1] = receipt end
local ends = redis.call('ZMSCORE', LEASED, unpack(receipts))
local gone, ids, stale, seen = {}, {}, {}, {}
for index, receipt in ipairs(receipts) do
  if ends[index] and tonumber(ends[index]) > now and not seen[receipt] then
    seen[receipt] = true
    gone[#gone + 1] = receipt
    ids[#ids + 1] = parts(receipt)
  else
    stale[#stale + 1] = receipt
  end
end
if #gone > 0 then
  redis.call('ZREM', LEASED, unpack(gone))
  redis.call('HDEL', BODIES, unpack(ids))
  if redis.call('EXISTS', ALLOWED) == 1 then redis.call('HDEL', ALLOWED, unpack(ids)) end
end
return tell(stale)
"""

NACK: Final = """
local known = told_before()
if known then return known end
local receipt = ARGV[4]
if not is_leased(receipt) then return tell(0) end
redis.call('ZREM', LEASED, receipt)
if tonumber(ARGV[5]) <= 0 then
  redis.call('LPUSH', READY, receipt)
else
  redis.call('ZADD', DELAYED, now + tonumber(ARGV[5]), receipt)
end
wake()
return tell(1)
"""

EXTEND: Final = """
local known = told_before()
if known then return known end
local receipt = ARGV[4]
if not is_leased(receipt) then return tell(0) end
local sooner = now + tonumber(ARGV[5]) < first_score(LEASED)
redis.call('ZADD', LEASED, now + tonumber(ARGV[5]), receipt)
if sooner then wake() end
return tell(1)
"""

BURY: Final = """
local known = told_before()
if known then return known end
local receipt = ARGV[4]
if not is_leased(receipt) then return tell(0) end
redis.call('ZREM', LEASED, receipt)
local id, count = parts(receipt)
bury(id, count, ARGV[5], ARGV[6])
return tell(1)
"""

EXHUME: Final = """
local known = told_before()
if known then return known end
local id, deliveries = ARGV[4], tonumber(ARGV[5])
if redis.call('HDEL', REASONS, id) == 0 then return tell(0) end
for _, entry in ipairs(redis.call('ZRANGE', DEAD, 0, -1)) do
  local dead_id, count = parts(entry)
  if dead_id == id then
    redis.call('ZREM', DEAD, entry)
    if deliveries > 0 then
      redis.call('HSET', ALLOWED, id, count + deliveries)
      redis.call('RPUSH', READY, entry)
      wake()
    else
      redis.call('HDEL', BODIES, id)
      redis.call('HDEL', ALLOWED, id)
    end
  end
end
return tell(1)
"""

PURGE: Final = """
local known = told_before()
if known then return known end
local purged = 0
local function forget(entries)
  for index = 1, #entries, 1000 do
    local ids = {}
    for place = index, math.min(index + 999, #entries) do ids[#ids + 1] = parts(entries[place]) end
    redis.call('HDEL', BODIES, unpack(ids))
    redis.call('HDEL', ALLOWED, unpack(ids))
  end
  purged = purged + #entries
end
forget(redis.call('LRANGE', READY, 0, -1))
forget(redis.call('ZRANGE', LEASED, 0, -1))
forget(redis.call('ZRANGE', DELAYED, 0, -1))
redis.call('DEL', READY, LEASED, DELAYED, WAKE)
return tell(purged)
"""

COUNTS: Final = """
local leased = redis.call('ZCOUNT', LEASED, '(' .. now, '+inf')
local delayed = redis.call('ZCOUNT', DELAYED, '(' .. now, '+inf')
local due = redis.call('ZCARD', LEASED) - leased + redis.call('ZCARD', DELAYED) - delayed
return {redis.call('LLEN', READY) + due, leased, delayed, redis.call('ZCARD', DEAD)}
"""

DEAD_LETTERS: Final = """
local entries = redis.call('ZRANGE', DEAD, 0, tonumber(ARGV[4]) - 1, 'WITHSCORES')
local answer = {}
for index = 1, #entries, 2 do
  local id, count = parts(entries[index])
  answer[#answer + 1] = {
    id, entries[index + 1], redis.call('HGET', BODIES, id) or '', count, redis.call('HGET', REASONS, id)
  }
end
return answer
"""


@functools.cache
def script(body: str, *, time: str = SERVER_TIME) -> str:
    """A whole script. Tests hand in a clock of their own; nothing else differs from what production runs."""
    return _PROLOGUE % time + body
