package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

// An inbox is where the waiters of one Backend are notified of their turn: a FIFO of its own in the directory, with one
// goroutine that reads tickets from it, both made by the first waiter. Opening a FIFO for writing shows whether its
// reader lives, so that the dead are skipped at once.
type inbox struct {
	store *store

	mu      sync.Mutex
	id      uint64 // 0 before the first waiter; never 0 in a queue
	node    inode
	file    *os.File
	waiting map[uint64]chan struct{} // by the number of the ticket
	last    uint64                   // ticket
	readers sync.WaitGroup
}

// A ticket identifies one waiter in an inbox.
type ticket struct {
	number uint64
	turn   chan struct{} // it is the waiter's turn, or sooner than it thinks; has room for one message
}

func (b *inbox) join() ticket {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	t := ticket{b.last, make(chan struct{}, 1)}
	b.waiting[t.number] = t.turn
	return t
}

func (b *inbox) leave(t ticket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, t.number)
}

// address returns the inbox's name in a queue. It makes the FIFO if there is none, or somebody has removed it.
func (b *inbox) address() (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file != nil {
		if node, err := infoAt(b.path(b.id)); err == nil && node.inode == b.node {
			return b.id, nil
		}
		b.file.Close() // its reader ends
		b.file = nil
	}
	err := b.makeLocked()
	return b.id, err
}

func (b *inbox) path(id uint64) string {
	return b.store.path(fmt.Sprintf("%s%016x", inboxPrefix, id))
}

// makeLocked makes the FIFO, and removes those that dead processes have left. It makes another if it does not find what
// it has just made: a process whose wall clock is ahead, or has just been set, takes it for a dead one's.
func (b *inbox) makeLocked() (err error) {
	const attempts = 3 // each process looks once
	for range attempts {
		if err = b.makeOnceLocked(); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err == nil {
		b.store.removeDead()
	}
	return err
}

func (b *inbox) makeOnceLocked() error {
	id := rand.Uint64() | 1
	path := b.path(id)
	err := makeFIFO(path, b.store.mode)
	if errors.Is(err, fs.ErrNotExist) {
		if err = b.store.makeFolder(); err == nil {
			err = makeFIFO(path, b.store.mode)
		}
	}
	if err != nil {
		return err
	}
	point("made")
	fd, err := openAt(path, listenFIFO, 0)
	if err != nil {
		unlink(path)
		return err
	}
	info, err := infoOf(fd)
	if err == nil {
		err = chmodFD(fd, b.store.mode)
	}
	if err != nil {
		closeFD(fd)
		unlink(path)
		return err
	}
	b.id, b.node, b.file = id, info.inode, os.NewFile(uintptr(fd), path)
	file := b.file
	b.readers.Go(func() { b.read(file) })
	return nil
}

const (
	inboxPrefix = ".inbox."
	// oldAge is when a FIFO that nobody reads belongs to a dead process: a new one is about to be opened.
	oldAge = time.Minute
	// deadTime bounds the search for them.
	deadTime = 100 * time.Millisecond
)

// removeDead removes the FIFOs of dead processes.
func (s *store) removeDead() {
	until := time.Now().Add(deadTime)
	all, _ := os.ReadDir(s.dir)
	for _, e := range all {
		if e.Type() != fs.ModeNamedPipe || !hasRandomName(e.Name(), inboxPrefix) {
			continue
		}
		if time.Now().After(until) {
			return
		}
		path := s.path(e.Name())
		info, err := os.Lstat(path)
		if err != nil || time.Since(info.ModTime()) < oldAge {
			continue
		}
		switch fd, err := openInbox(path); {
		case err == nil:
			closeFD(fd)
		case noReader(err):
			unlink(path)
		}
	}
}

// read passes messages to waiters. An unknown ticket belongs to a waiter that has left the queue.
func (b *inbox) read(file *os.File) {
	var buf [512]byte
	have := 0
	for {
		n, err := file.Read(buf[have:])
		if err != nil && !errors.Is(err, io.EOF) {
			return
		}
		have += n
		used := 0
		for ; have-used >= 8; used += 8 {
			b.wake(binary.LittleEndian.Uint64(buf[used:]))
		}
		have = copy(buf[:], buf[used:have])
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
	file := b.file
	if file != nil {
		unlink(b.path(b.id))
		file.Close()
		b.file = nil
	}
	b.mu.Unlock()
	b.readers.Wait()
}

// notify implements post.
func (b *inbox) notify(q queued) bool {
	fd, err := openInbox(b.path(q.inbox))
	if err != nil {
		// Without permission, a live waiter's inbox cannot be opened either: its timer wakes it.
		return !noReader(err)
	}
	defer closeFD(fd)
	writeFIFO(fd, binary.LittleEndian.AppendUint64(nil, q.ticket))
	return true
}

// alive implements post.
func (b *inbox) alive(q queued) bool {
	fd, err := openInbox(b.path(q.inbox))
	if err == nil {
		closeFD(fd)
	}
	return !noReader(err)
}
