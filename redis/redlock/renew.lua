-- Extends leases that their owners still hold at this node; never creates one.
--
-- KEYS: locks. ARGV: for each lock owner, time to keep it in ms, number of the request, token.
-- Returns the time in µs, and for each lock 1 renewed, 2 missing or held by another owner, or minus the number of a
-- later request of the same owner.

local answers = {clock()}
for i, lock in ipairs(KEYS) do
  local me, keep, number, chosen = ARGV[4 * i - 3], ARGV[4 * i - 2], ARGV[4 * i - 1], ARGV[4 * i]
  local _, last, owner = parse(redis.call('GET', lock))
  local answer = 1
  if owner ~= me then
    answer = 2
  elseif last > tonumber(number) then
    answer = -last
  else
    redis.call('PEXPIRE', lock, keep) -- a full server allows this, and then also SET in the same script
    redis.call('SET', lock, chosen .. ':' .. number .. ':' .. me, 'PX', keep)
  end
  answers[i + 1] = answer
end
return answers
