-- Makes a node known to the fleet, and decides from when on it votes. It is run when a client first reaches a node, and when
-- the node's server has been started again.
--
-- KEYS: birth. ARGV: incarnation as the client has seen it, longest TTL in ms, a new id, 1 if the server keeps every write
-- over a restart (appendfsync always), then the ids of the other nodes.
-- Returns {1, longest TTL, id, ms until it votes}, or {0} if the server has been started again since the client looked.
--
-- No record: the node is new or has lost its data. It votes when every lease that it may have forgotten is over. The record
-- "new" is an operator's word that there are none. A record of another incarnation: the server has been started
-- again; if it keeps every write it has forgotten nothing, else it may have forgotten what it knew before its start.
-- The record of another node: its data was copied over this one's. A record of the future: the clock was set back since. The
-- node has known every lease since an instant that is over, so that now is on the safe side.

local now = math.floor(clock() / 1000)
local info = redis.call('INFO', 'server')
local run = string.match(info, 'run_id:(%x+)') or ''
-- How long it has run for certain, in ms.
local uptime = math.max(tonumber(string.match(info, 'uptime_in_seconds:(%d+)') or 0) - 1, 0) * 1000
if run ~= ARGV[1] then return {0} end
local value = redis.call('GET', KEYS[1])
local born, max, id, incarnation = parse_birth(value)
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
    born = math.max(now - uptime, born)
  end
end
born = math.min(born, now)
local record = whole(born) .. ':' .. max .. ':' .. id .. ':' .. run
if record ~= value then redis.call('SET', KEYS[1], record) end -- a full server can be met that has been met before
return {1, max, id, math.max(minority(tonumber(max)) - (now - born), 0)}
