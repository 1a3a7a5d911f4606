-- Shared by all scripts of a mailbox. Each script is atomic, in the server's memory and in its append-only file.
--
-- All keys of a mailbox share a hash tag, so that a cluster keeps them together. A message is in one of the first four
-- keys as "id:count", where count is its deliveries so far; for a leased message that is its receipt handle. Counts only
-- grow, so no two deliveries share a receipt.
--
--   ready    list    oldest first                  bodies   hash    id -> the message's bytes
--   leased   zset    when the lease ends (ms)      allowed  hash    id -> deliveries that a redriven message may have
--   delayed  zset    when it is ready again (ms)   reasons  hash    id -> why it is dead, and its deliveries
--   dead     zset    when it died (ms)             wake     list    a token: waiting receivers should look again
--   known    string  the mailbox can be replied to: its lifetime in ms if unused (0: for ever), or "closed"
--   caller   string  one caller's last call number and its answer
--
-- A caller numbers its calls. Client libraries repeat a call whose answer was lost; the repeated call is not executed
-- again but gets the stored answer.
-- ARGV[1]: the call's number, ARGV[2]: how long its answer is kept (ms), ARGV[3]: '1' if the mailbox must be registered.
local READY, LEASED, DELAYED, DEAD, BODIES, ALLOWED, REASONS, WAKE, KNOWN, CALLER = unpack(KEYS)
local call_number, memory_ms = ARGV[1], ARGV[2]

local function previous_answer()
  local stored = redis.call('GET', CALLER)
  if not stored then return nil end
  local last = cmsgpack.unpack(stored)
  if last[1] == call_number then return last[2] end
  -- An older call that arrives late was repeated and answered before; nobody waits for this answer.
  if tonumber(last[1]) > tonumber(call_number) then return {} end
  return nil
end

-- Store the answer and return it. Every script that changes something ends with this.
-- Using a temporary mailbox also renews its lifetime.
local function answer(value)
  redis.call('SET', CALLER, cmsgpack.pack({call_number, value}), 'PX', memory_ms)
  local lifetime_ms = tonumber(redis.call('GET', KNOWN) or '0') or 0
  if lifetime_ms > 0 then
    for index = 1, #KEYS - 1 do redis.call('PEXPIRE', KEYS[index], lifetime_ms) end
  end
  return value
end

-- Wake one waiting receiver. One token is enough: that receiver wakes the next if there is more.
local function wake()
  if redis.call('EXISTS', WAKE) == 0 then redis.call('RPUSH', WAKE, '1') end
end

local function parts(entry)
  local id, count = string.match(entry, '^(.+):(%d+)$')
  -- An entry that another program pushed has no count: it was never delivered.
  return id or entry, tonumber(count) or 0
end

local function bury(id, count, reason, problem)
  redis.call('ZADD', DEAD, now, id .. ':' .. count)
  redis.call('HSET', REASONS, id, cjson.encode({reason = reason, problem = problem, count = count}))
end

-- Whether a receipt is the latest of its message and its lease has not ended.
local function is_leased(receipt)
  local until_ms = redis.call('ZSCORE', LEASED, receipt)
  return until_ms and tonumber(until_ms) > now
end

local function first_score(zset)
  return tonumber(redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')[2]) or math.huge
end
