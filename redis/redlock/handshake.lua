-- Writes a node's birth record, and decides from when on the node votes. A client runs this script when it first
-- reaches the node, and after each restart of the node's server.
--
-- KEYS: birth. ARGV: run_id that the client has read, longest TTL in ms, a new id, 1 if the server keeps every write
-- across a restart (appendfsync always), then the ids of the other nodes.
-- Returns {record, its parts born, longest TTL and id, when the node votes from in ms by its clock, ms until then}, or
-- {} if the server has been restarted since the client read its run_id.
--
-- If there is no record, the node is new or has lost its data. It votes when every lease that it may have forgotten has
-- ended. With the record "new", an operator declares that there are no such leases. If another process has written the
-- record, the server was restarted. If it keeps every write, it has forgotten nothing. Otherwise it may have forgotten
-- everything from before its start. If the record is another node's, that node's data was copied here. If the record is
-- later than the clock, the clock was set back. Then the record starts now: that is late enough.

-- probation returns how long a node must have known every lease before it votes: the longest TTL, as a node keeps it,
-- by a clock that may be 1 % fast.
local function probation(max) return max + math.ceil(max / 100) + 100 end

local now = math.floor(clock() / 1000)
local info = redis.call('INFO', 'server')
local run = string.match(info, 'run_id:(%x+)') or ''
-- How long the server has run at least, in ms.
local uptime = math.max(tonumber(string.match(info, 'uptime_in_seconds:(%d+)') or 0) - 1, 0) * 1000
if run ~= ARGV[1] then return {} end
local value = redis.call('GET', KEYS[1])
local born, max, id, writer = string.match(value or '', '^(%d+):(%d+):([^:]*):(.*)$')
if value == 'new' then
  born, max, id = 0, ARGV[2], ARGV[3]
elseif not born then
  born, max, id = now, ARGV[2], ARGV[3]
else
  local copied = false
  for i = 5, #ARGV do copied = copied or ARGV[i] == id end
  if copied then
    born, id = now, ARGV[3]
  elseif writer ~= run and ARGV[4] ~= '1' then
    born = math.max(now - uptime, tonumber(born))
  end
end
born = math.min(tonumber(born), now)
local record = whole(born) .. ':' .. max .. ':' .. id .. ':' .. run
if record ~= value then redis.call('SET', KEYS[1], record) end -- a full server refuses SET
local from = born + probation(tonumber(max))
return {record, whole(born), tonumber(max), id, whole(from), math.max(from - now, 0)}
