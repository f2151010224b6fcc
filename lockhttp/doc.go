// Package lockhttp serves the locks of any store over HTTP, for programs in languages that have no client of their own.
// The command "anylock serve" is built on it. It needs the standard library only.
//
// A client acquires, renews and releases a lease by separate requests, under an owner that it chooses (any text, new
// for each acquisition). Every request may be repeated with the same owner. A lease that the client does not renew ends
// with its TTL; the server renews none by itself.
//
// Times are relative: deadline_ms in an answer counts from the moment before the client sent the request. A client that
// takes that moment and adds deadline_ms never believes in its lease for longer than the store does, however long the
// answer travelled.
//
// # Owners at the store
//
// The server adds the name of the authenticated client, a label, and a random number to the client's owner: "job-7" of
// client "ci" with the label "web-3" is "job-7@ci~web-3~x0123456789abcdef" at the store, and with "~s" for a shared
// lease. So a failed attempt, which the store cleans up by owner, cannot end the lease of the client's next attempt,
// and no client can act as the owner of another. Where the store can resume leases (lock.Locker.Resumable), any server
// in front of the same store continues a lease, for example after a restart, by the name that the reply to the
// acquisition had. A lease for which no reply arrived is never continued: the server that was granted it may still
// release it. At other stores clients lose their leases with the server. If the store then frees the keys at once, as
// in memory, a new server grants nothing for Options.StartDelay, so that no client still relies on a lease of the
// server before.
package lockhttp
