-- Returns how many messages are ready, leased, delayed and dead. Changes nothing.
local leased = redis.call('ZCOUNT', LEASED, '(' .. now, '+inf')
local delayed = redis.call('ZCOUNT', DELAYED, '(' .. now, '+inf')
local due = redis.call('ZCARD', LEASED) - leased + redis.call('ZCARD', DELAYED) - delayed
return {redis.call('LLEN', READY) + due, leased, delayed, redis.call('ZCARD', DEAD)}
