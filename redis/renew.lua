-- Prolongs leases that their owners still hold; never revives one. Renewals of a lease are numbered, so that one that was
-- given up and arrives late cannot undo a later one.
--
-- KEYS: locks. ARGV: for each lock owner, TTL in ms, number of the renewal.
-- Returns for each lock 1 renewed, 0 lost, 2 overtaken by a later renewal.

local answers = {}
for i, lock in ipairs(KEYS) do
  local me, ttl, number = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  local token, renewal, owner = parse(redis.call('GET', lock))
  if not token or token == '0' or owner ~= me then
    answers[i] = 0
  elseif tonumber(number) < tonumber(renewal) then
    answers[i] = 2
  else
    redis.call('SET', lock, token .. ':' .. number .. ':' .. me, 'PX', ttl)
    answers[i] = 1
  end
end
return answers
