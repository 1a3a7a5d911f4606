"""The scripts of the Redis mailbox. Each one is atomic, in the server's memory and in its append-only file.

All keys of a mailbox share a hash tag, so that a cluster keeps them together:

    ready    list    ids, oldest first                    counts   hash  id -> deliveries so far
    leased   zset    id -> when its lease is over (ms)    allowed  hash  id -> deliveries that a redriven one may have
    delayed  zset    id -> when it is ready again (ms)    reasons  hash  id -> why it is dead
    dead     zset    id -> when it died (ms)              wake     list  a token: whoever waits should look again
    bodies   hash    id -> its bytes                      known    resolvers may find it; how long it lives unused (ms)
    caller   string  the last call of one caller, and its answer

A receipt handle is ``id:count``. Counts only grow, so no two deliveries share one, and the latest is the only valid one.

A caller numbers its calls. A call that comes a second time, because its answer was lost on the way, is not done again:
its answer is given again. Client libraries repeat calls on their own, so nothing less would do.
"""

import functools
from typing import Final

# The server's clock; leases are compared with no other.
SERVER_TIME: Final = "local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000)"

_PROLOGUE: Final = """
if redis.replicate_commands then redis.replicate_commands() end
local READY, LEASED, DELAYED, DEAD, BODIES, COUNTS, ALLOWED, REASONS, WAKE, KNOWN, CALLER = unpack(KEYS)
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
  local lifetime_ms = tonumber(redis.call('GET', KNOWN) or '0')
  if lifetime_ms > 0 then
    for index = 1, #KEYS - 1 do redis.call('PEXPIRE', KEYS[index], lifetime_ms) end
  end
  return answer
end

-- One token is enough: whoever takes it looks, and wakes the next if there is more.
local function wake()
  if redis.call('EXISTS', WAKE) == 0 then redis.call('RPUSH', WAKE, '1') end
end

local function bury(id, reason, problem)
  redis.call('ZADD', DEAD, now, id)
  redis.call('HSET', REASONS, id, cjson.encode({reason = reason, problem = problem}))
end

-- The id in a receipt, if it is the latest of its message and its time is not over.
local function leased_id(receipt)
  local id, count = string.match(receipt, '^(.*):(%%d+)$')
  if not id or redis.call('HGET', COUNTS, id) ~= count then return nil end
  local until_ms = redis.call('ZSCORE', LEASED, id)
  if not until_ms or tonumber(until_ms) <= now then return nil end
  return id
end

local function first_score(zset)
  return tonumber(redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')[2]) or math.huge
end
"""

SEND: Final = """
local known = told_before()
if known then return known end
if ARGV[3] == '1' and redis.call('EXISTS', KNOWN) == 0 then return tell(-1) end
local pairs_of_bodies, ids = {}, {}
for index = 4, #ARGV, 2 do
  ids[#ids + 1] = ARGV[index]
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

local function lease(ids)
  local counts = redis.call('HMGET', COUNTS, unpack(ids))
  local has_redriven = redis.call('EXISTS', ALLOWED) == 1
  local taken, new_counts, scores = {}, {}, {}
  for index, id in ipairs(ids) do
    local count = tonumber(counts[index]) or 0
    local allowed = has_redriven and tonumber(redis.call('HGET', ALLOWED, id)) or deliveries
    if count >= allowed then
      bury(id, 'delivered_too_often', 'delivered ' .. count .. ' times and never settled')
    else
      taken[#taken + 1] = {id, tostring(count + 1)}
      new_counts[#new_counts + 1] = id
      new_counts[#new_counts + 1] = count + 1
      scores[#scores + 1] = now + visibility_ms
      scores[#scores + 1] = id
    end
  end
  if #taken > 0 then
    redis.call('HSET', COUNTS, unpack(new_counts))
    redis.call('ZADD', LEASED, unpack(scores))
  end
  return taken
end

local taken = told_before()
if not taken then
  local known_end = math.min(first_score(LEASED), first_score(DELAYED))
  surface()
  taken = {}
  while #taken < max do
    local ids = redis.call('LPOP', READY, max - #taken)
    if not ids or #ids == 0 then break end
    for _, one in ipairs(lease(ids)) do taken[#taken + 1] = one end
  end
  -- Whoever waits must look again if something is ready, or if the next lease ends before they thought.
  local next_end = math.min(first_score(LEASED), first_score(DELAYED))
  local sooner = next_end < known_end or (leaving and #taken == 0 and next_end < math.huge)
  if sooner or redis.call('EXISTS', READY) == 1 then wake() else redis.call('DEL', WAKE) end
  if #taken > 0 then tell(taken) end
end

local answer = {}
if #taken > 0 then
  local ids = {}
  for index, one in ipairs(taken) do ids[index] = one[1] end
  local bodies = redis.call('HMGET', BODIES, unpack(ids))
  for index, one in ipairs(taken) do answer[index] = {one[1], one[2], bodies[index]} end
end
local next_end = math.min(first_score(LEASED), first_score(DELAYED))
local wait_ms = -1
if next_end < math.huge then wait_ms = math.max(next_end - now, 0) end
return {answer, wait_ms}
"""

ACKNOWLEDGE: Final = """
local known = told_before()
if known then return known end
local receipts, ids, given = {}, {}, {}
for index = 4, #ARGV do
  local id, count = string.match(ARGV[index], '^(.*):(%d+)$')
  receipts[#receipts + 1] = {id or '', count or ''}
  ids[#ids + 1] = id or ''
end
local counts = redis.call('HMGET', COUNTS, unpack(ids))
local ends = redis.call('ZMSCORE', LEASED, unpack(ids))
local gone, answer, seen = {}, {}, {}
for index, receipt in ipairs(receipts) do
  local id = receipt[1]
  local ours = counts[index] == receipt[2] and ends[index] and tonumber(ends[index]) > now and not seen[id]
  answer[index] = ours and 1 or 0
  if ours then gone[#gone + 1] = id; seen[id] = true end
end
if #gone > 0 then
  redis.call('ZREM', LEASED, unpack(gone))
  redis.call('HDEL', BODIES, unpack(gone))
  redis.call('HDEL', COUNTS, unpack(gone))
  if redis.call('EXISTS', ALLOWED) == 1 then redis.call('HDEL', ALLOWED, unpack(gone)) end
end
return tell(answer)
"""

NACK: Final = """
local known = told_before()
if known then return known end
local id = leased_id(ARGV[4])
if not id then return tell(0) end
redis.call('ZREM', LEASED, id)
if tonumber(ARGV[5]) <= 0 then
  redis.call('LPUSH', READY, id)
else
  redis.call('ZADD', DELAYED, now + tonumber(ARGV[5]), id)
end
wake()
return tell(1)
"""

EXTEND: Final = """
local known = told_before()
if known then return known end
local id = leased_id(ARGV[4])
if not id then return tell(0) end
local sooner = now + tonumber(ARGV[5]) < first_score(LEASED)
redis.call('ZADD', LEASED, now + tonumber(ARGV[5]), id)
if sooner then wake() end
return tell(1)
"""

BURY: Final = """
local known = told_before()
if known then return known end
local id = leased_id(ARGV[4])
if not id then return tell(0) end
redis.call('ZREM', LEASED, id)
bury(id, ARGV[5], ARGV[6])
return tell(1)
"""

EXHUME: Final = """
local known = told_before()
if known then return known end
local id, deliveries = ARGV[4], tonumber(ARGV[5])
if redis.call('ZREM', DEAD, id) == 0 then return tell(0) end
redis.call('HDEL', REASONS, id)
if deliveries > 0 then
  redis.call('HSET', ALLOWED, id, (tonumber(redis.call('HGET', COUNTS, id)) or 0) + deliveries)
  redis.call('RPUSH', READY, id)
  wake()
else
  for _, hash in ipairs({BODIES, COUNTS, ALLOWED}) do redis.call('HDEL', hash, id) end
end
return tell(1)
"""

PURGE: Final = """
local known = told_before()
if known then return known end
local purged = 0
local function forget(ids)
  for index = 1, #ids, 1000 do
    local some = {unpack(ids, index, math.min(index + 999, #ids))}
    for _, hash in ipairs({BODIES, COUNTS, ALLOWED}) do redis.call('HDEL', hash, unpack(some)) end
  end
  purged = purged + #ids
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
local ids = redis.call('ZRANGE', DEAD, 0, tonumber(ARGV[4]) - 1, 'WITHSCORES')
local answer = {}
for index = 1, #ids, 2 do
  local id = ids[index]
  answer[#answer + 1] = {
    id, ids[index + 1], redis.call('HGET', BODIES, id) or '', redis.call('HGET', COUNTS, id) or '0',
    redis.call('HGET', REASONS, id)
  }
end
return answer
"""


@functools.cache
def script(body: str, *, time: str = SERVER_TIME) -> str:
    """A whole script. Tests hand in a clock of their own; nothing else differs from what production runs."""
    return _PROLOGUE % time + body
