-- Leases are measured by the server's clock and no other.
if redis.replicate_commands then redis.replicate_commands() end
local server_time = redis.call('TIME')
local now = server_time[1] * 1000 + math.floor(server_time[2] / 1000)
