-- Makes a node known to the fleet, and decides from when on it votes. It is run when a client first reaches a node, and when
-- the node's server has been started again.
--
-- KEYS: birth. ARGV: incarnation as the client has seen it, longest TTL in ms, a new id, 1 if the server keeps every write
-- over a restart (appendfsync always), then the ids of the other nodes.
-- Returns {record, its parts born, longest TTL and id, when it votes from in ms by its clock, ms until then}, or {} if the server has been
-- started again since the client looked.
--
-- No record: the node is new or has lost its data. It votes when every lease that it may have forgotten is over. The record
-- "new" is an operator's word that there are none. A record of another incarnation: the server has been started
-- again; if it keeps every write it has forgotten nothing, else it may have forgotten what it knew before its start.
-- The record of another node: its data was copied over this one's. A record of the future: the clock was set back since. The
-- node has known every lease since an instant that is over, so that now is on the safe side.

-- minority is how long a node must have known every lease before it votes: the longest lease, as it is kept, by a clock
-- that may be 1 % fast.
local function minority(max) return max + math.ceil(max / 100) + 100 end

local now = math.floor(clock() / 1000)
local info = redis.call('INFO', 'server')
local run = string.match(info, 'run_id:(%x+)') or ''
-- How long it has run for certain, in ms.
local uptime = math.max(tonumber(string.match(info, 'uptime_in_seconds:(%d+)') or 0) - 1, 0) * 1000
if run ~= ARGV[1] then return {} end
local value = redis.call('GET', KEYS[1])
local born, max, id, incarnation = string.match(value or '', '^(%d+):(%d+):([^:]*):(.*)$')
if value == 'new' then
  born, max, id = 0, ARGV[2], ARGV[3]
elseif not born then
  born, max, id = now, ARGV[2], ARGV[3]
else
  local copied = false
  for i = 5, #ARGV do copied = copied or ARGV[i] == id end
  if copied then
    born, id = now, ARGV[3]
  elseif incarnation ~= run and ARGV[4] ~= '1' then
    born = math.max(now - uptime, tonumber(born))
  end
end
born = math.min(tonumber(born), now)
local record = whole(born) .. ':' .. max .. ':' .. id .. ':' .. run
if record ~= value then redis.call('SET', KEYS[1], record) end -- so that a handshake is possible again with a server that is full by now
local from = born + minority(tonumber(max))
return {record, whole(born), max, id, whole(from), math.max(from - now, 0)}
