package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/pair"
)

// A switchStore is one of the two stores of a switch.
type switchStore struct {
	pair.Store
	other backend.Backend // a second client; probes alternate, because the next number of the same session may cost less
	url   string          // without the token base
	file  string          // the file that the URL was read from, if any
	key   string          // of probes; unique, so that nobody else uses it
}

// openSwitched opens the store whose URL is given by the flag, or by a file that the flag with the suffix -file names.
func (a *app) openSwitched(ctx context.Context, flag string, rawURL, file text) (*switchStore, error) {
	url, err := readURL(ctx, flag, rawURL, flag+"-file", file)
	switch {
	case err != nil:
		return nil, err
	case url == "":
		return nil, usagef("%s is missing", flag)
	}
	a.warnOfPassword(flag, rawURL.s)
	a.warnOfReaders(flag+"-file", file.s, url)
	if err := checkScheme(url); err != nil {
		return nil, err
	}
	s, err := openSwitched(ctx, url)
	if err != nil {
		return nil, storeError(err)
	}
	s.file = file.s
	return s, nil
}

func openSwitched(ctx context.Context, rawURL string) (*switchStore, error) {
	s := &switchStore{key: "anylock-switch-" + rand.Text()}
	other := pair.Store{}
	var err error
	if s.Store, err = pair.OpenStore(ctx, rawURL); err == nil {
		if other, err = pair.OpenStore(ctx, rawURL); err != nil {
			s.Store.Backend.Close()
		}
	}
	if err != nil {
		return nil, driver.CleanError(rawURL, err)
	}
	s.other = other.Backend
	s.url, err = driver.WithoutTokenBase(rawURL)
	return s, err
}

func (s *switchStore) close() error { return errors.Join(s.other.Close(), s.Backend.Close()) }

// number acquires and releases a lock, and returns the lock's number with the token base.
func (s *switchStore) number(ctx context.Context) (uint64, error) {
	s.Backend, s.other = s.other, s.Backend
	l, err := s.Backend.Acquire(ctx, backend.Request{Key: s.Prefix + s.key, Owner: backend.NewOwner(),
		TTL: 10 * time.Second})
	if err == nil {
		err = l.Release(ctx)
	}
	if err != nil {
		return 0, driver.CleanError(s.url, err)
	}
	return driver.AddTokenBase(l.Token(), s.TokenBase)
}

// A cut is a number that a store does not reach within a given time.
type cut struct {
	number uint64
	found  string // how the cut was found, for people
	limit  string // when the deploy must be complete, so that the store does not reach the cut before
}

// findCut draws numbers in a row, to measure by how much one lock advances them. It draws another number a second
// later, to measure by how much time or other processes advance them.
func (s *switchStore) findCut(ctx context.Context, within time.Duration) (*cut, error) {
	const probes, watched = 20, time.Second
	first, err := s.number(ctx)
	if err != nil {
		return nil, err
	}
	last, sent, answered := first, time.Time{}, time.Time{}
	for range probes {
		sent = time.Now()
		if last, err = s.number(ctx); err != nil {
			return nil, err
		}
		answered = time.Now()
	}
	if last < first {
		return nil, fellBack(first, last)
	}
	step := max(1, (last-first)/probes)
	if err := kit.Sleep(ctx, watched); err != nil {
		return nil, err
	}
	begun := time.Now()
	now, err := s.number(ctx)
	if err != nil {
		return nil, err
	}
	if now < last {
		return nil, fellBack(last, now)
	}
	// If the numbers follow a clock, they have grown by a time between the shortest and the longest that can have passed.
	shortest, longest := uint64(begun.Sub(answered).Microseconds()), uint64(time.Since(sent).Microseconds())
	if grown := now - last; grown > shortest*9/10 && grown < longest*11/10+step {
		return &cut{number: now + uint64(within.Microseconds()), limit: "within " + within.String(),
			found: fmt.Sprintf("the number %d of a probe now; they follow a clock in microseconds, so it is reached in %v", now,
				within)}, nil
	}
	// Leave room for twice what others used per second, and for at least 10,000 locks.
	const least = 10_000
	others := now - last - min(now-last, step)
	room := max(least*step, 2*others*uint64(within/watched+1))
	return &cut{number: now + room, limit: fmt.Sprintf("within %v, and before %d more numbers are used", within, room),
		found: fmt.Sprintf("the number %d of a probe now, and room for %d more: one lock takes up to %d, and in the second "+
			"watched others took %d",
			now, room, step, others)}, nil
}

// fellBack returns the error for a store whose numbers have fallen, so that they show nothing about later ones.
func fellBack(from, to uint64) error {
	return fmt.Errorf("%w: the store's number fell from %d to %d, as after a failover that lost data; try again",
		backend.ErrUnavailable, from, to)
}

// pass draws numbers until they have reached n. It then waits until processes may use the next store alone, and returns
// the last number. It calls report with each number below n.
func (s *switchStore) pass(ctx context.Context, n uint64, report func(number uint64)) (uint64, error) {
	for {
		now, err := s.number(ctx)
		switch {
		case err != nil:
			return 0, err
		case now >= n:
			return now, kit.Sleep(ctx, pair.SwitchDelay)
		}
		report(now)
		const clock = 1_000_000 // if n is further away than this, pause between numbers
		if n-now > clock {
			if err := kit.Sleep(ctx, 10*time.Millisecond); err != nil {
				return 0, err
			}
		}
	}
}
