package conformance

import "github.com/anylock/lock/backend"

func resumeOfReaders(t *trial) {
	t.inChunks(4, 3, func(i int) {
		switch i {
		case 2:
			t.resumesOneReader()
			return
		case 3:
			t.resumesReaderAlone()
			return
		}
		if i == 0 {
			writer, reader := t.acquire(t.a, t.newKey(), t.long()), t.read(t.a, t.newKey(), t.long())
			t.notResumed(t.b, backend.Request{Key: writer.key, Owner: writer.owner, TTL: t.long(), Shared: true},
				"Resume of an exclusive lease as a shared one")
			t.notResumed(t.b, backend.Request{Key: reader.key, Owner: reader.owner, TTL: t.long()},
				"Resume of a shared lease as an exclusive one")
			other := t.read(t.b, t.newKey(), t.long())
			for what, owner := range map[string]string{
				"Resume by a reader of another key":                    other.owner,
				"Resume by an owner in front of another reader's name": reader.owner[:len(reader.owner)-1],
				"Resume by an owner behind another reader's name":      reader.owner[1:],
			} {
				t.notResumed(t.b, backend.Request{Key: reader.key, Owner: owner, TTL: t.long(), Shared: true}, what)
			}
			t.release(other)
			t.readRefused(writer)
			t.readersKeepOut([]*grant{reader}, "after Resume as an exclusive lease, and by others")
			t.release(writer)
			t.release(reader)
			return
		}
		readers := t.readers(t.newKey(), 3, t.short())
		resumed := t.resume(t.b, readers[1], t.long())
		t.expire(readers[0])
		t.expire(readers[2])
		// At first, no other request has made the store remove the expired readers.
		t.notResumed(t.b, backend.Request{Key: resumed.key, Owner: readers[2].owner, TTL: t.long(), Shared: true},
			"Resume of a reader whose lease has just expired")
		t.readersKeepOut([]*grant{resumed}, "after Resume of one of several readers, and the expiry of the others")
		t.notResumed(t.a, backend.Request{Key: resumed.key, Owner: readers[0].owner, TTL: t.long(), Shared: true},
			"Resume of a reader whose lease has expired")
		w := t.wait(t.a, resumed.key, t.long())
		t.arrived(resumed.key, 1)
		behind := t.waitToRead(t.b, resumed.key, t.long())
		t.arrived(resumed.key, 2)
		for _, waits := range []*waiting{behind, w} {
			t.notResumed(t.a, backend.Request{Key: resumed.key, Owner: waits.owner, TTL: t.long(), Shared: true},
				"Resume of a reader, by an owner that waits")
		}
		again := t.resume(t.a, resumed, t.long())
		w.stillWaits(t, again, t.rule)
		behind.stillWaits(t, again, t.rule)
		t.release(again)
		next := w.granted(t, t.handOff(), "after the release of a resumed reader")
		behind.stillWaits(t, next, t.rule)
		t.release(next)
		t.release(behind.granted(t, t.handOff(), "after the release of the writer before it"))
	})
}

// resumesReaderAlone calls Resume for readers that share their keys with nobody: one whose client was closed, and one
// that has expired.
func (t *trial) resumesReaderAlone() {
	first := t.open()
	g, dead := t.read(first, t.newKey(), t.long()), t.read(t.a, t.newKey(), t.short())
	t.closes(first)
	resumed := t.resume(t.b, g, t.long())
	t.readersKeepOut([]*grant{resumed}, "after Resume of a reader whose client was closed")
	t.release(resumed)
	t.mustBeFree(t.a, g.key, "after the release of a resumed reader whose first client was closed")
	t.expire(dead)
	for _, b := range []backend.Backend{t.a, t.b} {
		t.notResumed(b, backend.Request{Key: dead.key, Owner: dead.owner, TTL: t.long(), Shared: true},
			"Resume of a reader whose lease has expired, and whose key is free")
	}
	t.mustBeFree(t.a, dead.key, "after Resume of an expired reader")
	for _, ended := range []*grant{dead, resumed} {
		writer := t.acquire(t.b, ended.key, t.long())
		t.notResumed(t.a, backend.Request{Key: ended.key, Owner: ended.owner, TTL: t.long(), Shared: true},
			"Resume of a reader whose lease has ended, and whose key a writer holds")
		t.describes(writer, t.long())
		t.heldBy(writer)
		t.release(writer)
	}
}

// resumesOneReader shortens three of several readers by Resume. It also calls Resume for a reader that was released,
// which must fail. Neither must prolong a dead reader's lease.
func (t *trial) resumesOneReader() {
	key := t.newKey()
	readers := t.readers(key, 3, t.long())
	ended, stays := t.read(t.a, key, t.long()), t.read(t.b, key, t.long())
	t.release(ended)
	for i, g := range readers {
		readers[i] = t.resume(t.client(i), g, t.short())
	}
	for _, b := range []backend.Backend{t.a, t.b} {
		t.notResumed(b, backend.Request{Key: key, Owner: ended.owner, TTL: t.long(), Shared: true},
			"Resume of a reader that has released its lease")
	}
	t.release(t.read(t.b, key, t.long())) // a new reader may still enter
	for _, g := range readers {
		t.outlast(t.lastRefusal(g.after, t.short()))
	}
	t.readersKeepOut([]*grant{stays}, "after Resume of others to a shorter TTL, and their expiry")
	t.release(stays)
	t.mustBeFree(t.b, key, "after Resume of readers to a shorter TTL, and their expiry")
}
