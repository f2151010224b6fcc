-- Prolongs leases that their owners still hold; never revives one. Each TTL that a lease is renewed to after another has a
-- number, so that a renewal that was given up and arrives late cannot undo a later one; one to the same TTL can only
-- prolong. From the first renewal to a TTL on the lock's value is what the client expects, and nothing need be read from it.
--
-- KEYS: locks. ARGV: for each lock its value with the number of this renewal's TTL; then for each lock the TTL in ms, or one
-- TTL for all.
-- Returns {1} if all are renewed; otherwise for each lock 1 renewed, 0 lost, 2 overtaken by a later renewal.

local n, all = #KEYS, true
local values, answers = call('MGET', unpack(KEYS)), {}
for i, lock in ipairs(KEYS) do
  local value, ttl, answer = ARGV[i], ARGV[n + i] or ARGV[n + 1], 1
  if values[i] == value then
    call('PEXPIRE', lock, ttl)
  else
    local token, renewal, owner = parse(values[i])
    local _, number, me = parse(value)
    if not token or token == '0' or owner ~= me then
      answer = 0
    elseif tonumber(number) < tonumber(renewal) then
      answer = 2
    else
      call('PEXPIRE', lock, ttl) -- a server that is full refuses SET, but not after this
      call('SET', lock, token .. ':' .. number .. ':' .. me, 'PX', ttl)
    end
    all = all and answer == 1
  end
  answers[i] = answer
end
return all and {1} or answers
