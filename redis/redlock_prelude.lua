-- Shared by the scripts of Redlock that follow it.
--
-- A lock's value is "token:number:owner": the fencing token, the number of the owner's last request, and who holds it. A
-- request with a lower number was given up and arrives late: it changes nothing.
--
-- The birth record is "born:max:id:run": since when the node has known every lease, in ms by its own clock; the longest
-- TTL of the fleet in ms; a random name for this node's data; the incarnation of the server that wrote it. A node
-- without a record, or with that of another incarnation, may have forgotten leases.

local function parse(value)
  if not value then return nil end
  local a = string.find(value, ':', 1, true)
  local b = a and string.find(value, ':', a + 1, true)
  if not b then return '0', 0, value end -- not ours: the key is taken all the same
  return string.sub(value, 1, a - 1), tonumber(string.sub(value, a + 1, b - 1)) or 0, string.sub(value, b + 1)
end

-- clock returns the server's time in µs.
local function clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

local function whole(n) return string.format('%.0f', n) end

-- server returns the incarnation of the server, and how long it has run for certain, in ms.
local function server()
  local info = redis.call('INFO', 'server')
  local up = tonumber(string.match(info, 'uptime_in_seconds:(%d+)') or 0)
  return string.match(info, 'run_id:(%x+)') or '', math.max(up - 1, 0) * 1000
end

local function parse_birth(value)
  return string.match(value or '', '^(%d+):(%d+):(%x+):(%x+)$')
end

-- minority is how long a node must have known every lease before it votes: the longest lease, as it is kept, by a clock
-- that may be 1 % fast.
local function minority(max) return max + math.ceil(max / 100) + 100 end
