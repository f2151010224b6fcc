
-- No waiter may be left behind a free key, and no shared one behind readers.
if first then admit(channel, first, score) else advance(channel) end
return removed
