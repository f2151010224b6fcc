package file

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
)

// An inbox receives the notifications for the waiters of one Backend. It has its own FIFO in the directory, and one
// goroutine that reads tickets from the FIFO. The first waiter creates both. Opening a FIFO for writing shows whether
// its reader is alive, so dead waiters are skipped at once.
type inbox struct {
	store *store

	mu      sync.Mutex
	id      uint64 // 0 before the first waiter; never 0 in a queue
	file    *os.File
	waiting map[uint64]chan struct{} // by the number of the ticket
	last    uint64                   // number of the last ticket
	readers sync.WaitGroup
}

// A ticket identifies one waiter in an inbox.
type ticket struct {
	number uint64
	turn   chan struct{} // receives when the waiter should try again; has room for one message
}

func (b *inbox) register() ticket {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	t := ticket{b.last, make(chan struct{}, 1)}
	b.waiting[t.number] = t.turn
	return t
}

func (b *inbox) unregister(t ticket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, t.number)
}

// address returns the inbox's id for a queue. It creates the FIFO if there is none, or if the FIFO was removed.
func (b *inbox) address() (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file != nil {
		if _, err := infoAt(b.path(b.id)); err == nil {
			return b.id, nil
		}
		b.file.Close() // ends its reader
		b.file = nil
	}
	err := b.makeLocked()
	return b.id, err
}

func (b *inbox) path(id uint64) string {
	return b.store.path(fmt.Sprintf("%s%016x", inboxPrefix, id))
}

// makeLocked creates the FIFO, and removes the FIFOs of dead processes. The FIFO gets its final name only after its
// reader has opened it: otherwise, other processes would mistake it for the FIFO of a dead process.
func (b *inbox) makeLocked() error {
	if err := b.store.ensureFolder(); err != nil {
		return err
	}
	temp := b.store.tempPath()
	if err := makeFIFO(temp, b.store.mode); err != nil {
		return err
	}
	fd, err := openAt(temp, listenFIFO, 0)
	if err == nil {
		b.id = rand.Uint64() | 1
		if err = chmodFD(fd, b.store.mode); err == nil {
			err = os.Rename(temp, b.path(b.id))
		}
		if err != nil {
			closeFD(fd)
		}
	}
	if err != nil {
		unlink(temp)
		return err
	}
	file := os.NewFile(uintptr(fd), b.path(b.id))
	b.file = file
	b.readers.Go(func() { b.read(file) })
	b.store.removeDead()
	return nil
}

const inboxPrefix = ".inbox."

// removeDead removes the FIFOs of dead processes.
func (s *store) removeDead() {
	all, _ := os.ReadDir(s.dir)
	for _, e := range all {
		path := s.path(e.Name())
		if e.Type() == fs.ModeNamedPipe && hasRandomName(e.Name(), inboxPrefix) && !hasReader(path) {
			unlink(path)
		}
	}
}

// read passes messages to waiters. An unknown ticket belongs to a waiter that has left the queue.
func (b *inbox) read(file *os.File) {
	messages := bufio.NewReader(file)
	var ticket uint64
	for binary.Read(messages, binary.LittleEndian, &ticket) == nil {
		b.wake(ticket)
	}
}

// wake wakes a waiter of this Backend, if it still waits.
func (b *inbox) wake(ticket uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.waiting[ticket] <- struct{}{}:
	default: // it has a notification already, or has left the queue
	}
}

func (b *inbox) close() {
	b.mu.Lock()
	if b.file != nil {
		unlink(b.path(b.id))
		b.file.Close()
		b.file = nil
	}
	b.mu.Unlock()
	b.readers.Wait()
}

// alive reports whether the process of a waiter is alive. If this process may not open the waiter's inbox, alive
// returns true; the waiter's timer then wakes it.
func (b *inbox) alive(q queued) bool { return hasReader(b.path(q.inbox)) }

// hasReader reports whether the reader of a FIFO may be alive.
func hasReader(path string) bool {
	fd, err := openInbox(path)
	if err == nil {
		closeFD(fd)
	}
	return !noReader(err)
}

// An outbox collects the waiters to notify after the record is written and its bucket unlocked: a waiter that wakes
// earlier would wait for the bucket's lock. It implements notifier.
type outbox struct {
	*inbox
	to []queued
}

func (o *outbox) notify(q queued) bool {
	if !o.alive(q) {
		return false
	}
	o.to = append(o.to, q)
	return true
}

func (o *outbox) send() {
	for _, q := range o.to {
		if fd, err := o.store.spare.openInbox(o.path(q.inbox)); err == nil {
			writeFIFO(fd, binary.LittleEndian.AppendUint64(nil, q.ticket))
			o.store.spare.closeFile(fd)
		}
	}
}
