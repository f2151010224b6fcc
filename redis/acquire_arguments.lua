-- Grants a key to an owner with a fencing token, in one request. If the key is taken, refuses it and optionally queues
-- the owner. A repeated request of the same owner gets the same reply.
--
-- KEYS: lock, queue, fence. ARGV: owner, TTL in ms, channel of the owner's process, 1 to queue; for a shared lease also
-- what there was before: 0 nothing, 1 a refusal, 2 a request that may have had no reply.
--
-- Returns token or {token, owner, ms left, 1 if the owner was not in the queue before, number of shared leases}.
--
-- The lock's value is "token:owner". Token 0 marks a reservation: the key is kept for a notified waiter. Shared leases
-- are a sorted set in place of that value: see readers.lua. A member of the queue is the waiter's inbox, 32 hexadecimal
-- digits, then the waiter's owner; the letter s precedes those of a shared request. The score orders the queue. A
-- channel is a prefix, then an inbox.
--
-- Lua costs the server more than the commands do. So the usual case comes first, before any function is made, and
-- numbers stay text where they can.

local call = redis.call
local lock, queue, fence, owner, ttl = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local replaced -- the counter's previous value, if the usual case has overwritten the counter; an error if SET failed
