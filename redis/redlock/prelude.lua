-- The beginning of every script of Redlock.
--
-- A lock's value is "token:number:owner": the fencing token, the number of the owner's last request, and the owner. A
-- request with a lower number arrives late, when its caller no longer waits for it: it changes nothing.
--
-- The birth record is "born:max:id:run": since when the node has known every lease, in ms by its own clock; the longest
-- TTL of the fleet in ms; a random name for this node's data; the run_id of the server that wrote it. A node without a
-- record, or with that of another run_id, may have forgotten leases.

local function parse(value)
  if not value then return nil end
  local a = string.find(value, ':', 1, true)
  local b = a and string.find(value, ':', a + 1, true)
  if not b then return '0', 0, value end -- a foreign value: the key is busy all the same
  return string.sub(value, 1, a - 1), tonumber(string.sub(value, a + 1, b - 1)) or 0, string.sub(value, b + 1)
end

-- clock returns the server's time in µs.
local function clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

local function whole(n) return string.format('%.0f', n) end

-- runs_as reports whether the server is still the process with this run_id. Every acquire calls it, so it searches for
-- plain text, which is faster than a pattern.
local function runs_as(run)
  return string.find(redis.call('INFO', 'server'), 'run_id:' .. run, 1, true) ~= nil
end
