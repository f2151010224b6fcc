
if first then admit(channel, first, score) else advance(channel) end
return describe(lock, nil, added)
