// Package lockhttp serves the locks of any store over HTTP, for programs in languages without a client of their own.
// The command "anylock serve" is built on it. It needs only the standard library.
//
// A client acquires, renews and releases a lease by separate requests, under an owner that the client chooses: any
// text, new for each acquisition. Every request may be repeated with the same owner. The server renews no leases
// itself: a lease that the client does not renew ends with its TTL.
//
// Times are relative: deadline_ms in a reply counts from the moment before the client sent the request. A client notes
// that moment and adds deadline_ms. So it never relies on the lease for longer than the store grants it, however long
// the reply took.
//
// # Owners at the store
//
// The server adds the name of the authenticated client, a label, and a random number to the client's owner: "job-7" of
// client "ci" with the label "web-3" is "job-7@ci~web-3~x0123456789abcdef" at the store, with "~s" instead of "~x" for
// a shared lease. The cleanup of a failed attempt removes only that owner, and so never ends the lease of the client's
// next attempt. Nor can a client act as the owner of another client.
//
// If the store can resume leases (lock.Locker.Resumable), any server in front of the same store can continue a lease,
// for example after a restart. The client identifies the lease by the name in the reply to its acquisition. If no reply
// arrived, the lease is never continued, because the server that acquired it may still release it.
//
// With other stores, clients lose their leases with the server. If such a store frees the keys at once, as memory does,
// a new server grants nothing for Options.StartDelay. By then, no client relies on a lease of the previous server.
package lockhttp
