-- Write an override if the stored one still has the etag that was read.
-- KEYS[1]: the override's hash. ARGV: the etag that was read, the new etag, the new content, when it expires (ms, or '').
-- The etag is the hash of the content, so that the server need not parse JSON.
local stored = redis.call('HGET', KEYS[1], 'mark') or ''
if stored ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'mark', ARGV[2], 'content', ARGV[3])
if ARGV[4] ~= '' then redis.call('PEXPIREAT', KEYS[1], ARGV[4]) else redis.call('PERSIST', KEYS[1]) end
return 1
