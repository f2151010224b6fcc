package file

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

// tokens gives fencing tokens that rise although the files of free keys are removed, the wall clock steps and the machine
// restarts. A token is the key's last one plus one, or the microseconds of the host's monotonic clock plus a base, whichever
// is higher; the latter is beyond the token of any file that was removed.
//
// The base belongs to one boot. It is kept in the directory's epoch file, and chosen by the first process of the boot that
// comes: the wall clock's microseconds, or more if the epochs before have granted higher ones. The epoch file knows a bound
// for that, which is moved ahead every other second.
type tokens struct {
	mu    sync.Mutex
	id    inode // of the epoch file; zero before it was read
	epoch epoch
}

// An epoch is what the epoch file says.
type epoch struct {
	boot bootID
	base int64  // what to add to the monotonic clock, in microseconds
	high uint64 // no token above it has been granted
}

const (
	ahead     = uint64(2 * time.Second / time.Microsecond)        // how far high is moved ahead
	least     = uint64(500 * time.Millisecond / time.Microsecond) // what is left of it before it is moved again
	maxToken  = 1<<55 - 1
	neverOver = 1 << 54 // the highest base: a wall clock that is wrong by centuries must not use up all tokens
)

func (e epoch) at(now int64) uint64 { return uint64(e.base + now/int64(time.Microsecond)) }

// nextToken is the token that follows last. It reports false if the epoch file must be told first: see prepareTokens.
func (s *store) nextToken(last uint64, now int64) (uint64, bool) {
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	t := max(last+1, s.tokens.epoch.at(now))
	return t, t <= s.tokens.epoch.high
}

// behind reports whether all tokens to come are above t.
func (s *store) behind(t uint64, now int64) bool {
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	return t < s.tokens.epoch.at(now)
}

// prepareTokens makes sure that nextToken can give the present tokens, and token if that is not 0.
func (s *store) prepareTokens(ctx context.Context, token uint64) error {
	if token > maxToken {
		return fmt.Errorf("%w: no tokens are left", backend.ErrUnsupported)
	}
	id, err := inodeAt(s.path(epochFile))
	if errors.Is(err, errAbsent) { // the folder is new, or somebody has removed what was in it
		if terr := s.takeFolder(); terr != nil && !errors.Is(terr, errAbsent) {
			return terr
		}
	} else if err != nil {
		return err
	}
	s.tokens.mu.Lock()
	e := s.tokens.epoch
	known := err == nil && id == s.tokens.id
	s.tokens.mu.Unlock()
	if known && e.high >= max(token, e.at(s.clock())+least) {
		return nil
	}
	for {
		done, err := s.moveEpoch(ctx, token)
		if done || err != nil {
			return err
		}
	}
}

// moveEpoch moves the bound ahead, and begins the epoch of this boot if there is none. It reports false if the file was
// replaced meanwhile.
func (s *store) moveEpoch(ctx context.Context, token uint64) (done bool, err error) {
	l, err := s.lock(ctx, epochFile, true)
	if err != nil {
		return false, err
	}
	defer l.close()
	img, e, err := s.readEpoch(l)
	if err != nil {
		return false, fmt.Errorf("%s: %w", l.path, err)
	}
	s.tokens.mu.Lock()
	ours := s.tokens.epoch
	s.tokens.mu.Unlock()
	now := s.clock()
	begins := e.boot != s.boot
	if begins {
		if ours.boot == s.boot && e.boot != (bootID{}) {
			return false, fmt.Errorf("%w: %s is written by another machine too; the file store serves one host",
				backend.ErrUnsupported, s.dir)
		}
		base := max(s.wall().UnixMicro(), int64(e.high)+1, ours.base+now/int64(time.Microsecond), 1)
		e = epoch{boot: s.boot, base: min(base, neverOver) - now/int64(time.Microsecond), high: e.high}
	}
	e.high = max(e.high, e.at(now)+ahead, token)
	if err := writeImage(l.fd, img, e.encode()); err != nil {
		return false, err
	}
	if begins {
		if err := syncFD(l.fd); err != nil {
			return false, err
		}
	}
	if ok, err := l.current(); !ok || err != nil {
		return false, err
	}
	s.tokens.mu.Lock()
	s.tokens.id, s.tokens.epoch = l.id, e
	s.tokens.mu.Unlock()
	return true, nil
}

func (s *store) readEpoch(l locked) (image, epoch, error) {
	img, err := s.readLocked(l)
	if err != nil || len(img.body) == 0 {
		return img, epoch{}, err
	}
	e, err := decodeEpoch(img.body)
	return img, e, err
}

func (e epoch) encode() []byte {
	b := append([]byte{kindEpoch, version}, e.boot[:]...)
	b = binary.AppendVarint(b, e.base)
	return binary.AppendUvarint(b, e.high)
}

func decodeEpoch(body []byte) (epoch, error) {
	d, err := newDecoder(body, kindEpoch)
	if err != nil {
		return epoch{}, err
	}
	e := epoch{boot: d.boot(), base: d.varint(), high: d.uvarint()}
	return e, d.end()
}
