package conformance_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// frameMutants are bugs of batches that are sent in frames.
var frameMutants = []mutant{
	{"answers of a batch's frames come in the order of arrival", "BatchFindsLossesAnywhere"},
	{"second frame of a batch reports no loss", "BatchFindsLossesAnywhere"},
	{"loss in a frame of a batch is reported for the whole frame", "BatchFindsLossesAnywhere"},
	{"first lease of a frame gets the answer of the last one before", "BatchFindsLossesAnywhere"},
	{"leases beyond 1000 of a batch are never lost", "BatchFindsLossesAnywhere"},
	{"failed frame of a batch is reported as renewed", "CutInsideBatch"},
	{"failed frame of a batch loses its leases", "CutInsideBatch"},
	{"answers after a failed frame move up", "CutInsideBatch"},
	{"frame that was not sent in time is reported as renewed", "CutInsideBatch"},
	{"batch with a failed frame moves every deadline", "CutInsideBatch"},
	{"batch of frames that were not sent is reported as renewed", "CutInsideBatch"},
	{"batch of frames that were not sent loses its leases", "CutInsideBatch"},
}

// framed reports whether batches are sent in frames.
func (s *server) framed() bool {
	return slices.ContainsFunc(frameMutants, func(m mutant) bool { return s.is(m.bug) })
}

// frameLen is the number of leases in one frame.
const frameLen = 64

// renewFrames renews a batch, one frame at a time.
func (c *client) renewFrames(
	ctx context.Context, lives []*kit.Life, ttls []time.Duration,
) (granted []time.Duration, errs []error) {
	var frames [][]error
	for from := 0; from < len(lives); from += frameLen {
		to := min(from+frameLen, len(lives))
		answers := make([]error, to-from) // a late reply may still write to answers
		if ctx.Err() != nil && c.is("frame that was not sent in time is reported as renewed") {
			frames = append(frames, answers)
			continue
		}
		err := c.do(ctx, func() {
			for k := range answers {
				if !c.renewed(lives[from+k], ttls[from+k]) {
					answers[k] = backend.ErrLost
				}
			}
		})
		frame := answers
		if err != nil {
			frame = slices.Repeat([]error{err}, to-from)
		}
		if frame = c.bendFrame(frame, err, len(frames)); frame != nil {
			frames = append(frames, frame)
		}
	}
	if c.is("answers of a batch's frames come in the order of arrival") && len(frames) > 2 {
		frames[0], frames[1] = frames[1], frames[0]
	}
	errs = slices.Concat(frames...)
	for i := frameLen; i < len(errs) &&
		c.is("first lease of a frame gets the answer of the last one before"); i += frameLen {
		errs[i] = errs[i-1]
	}
	if c.is("leases beyond 1000 of a batch are never lost") && len(errs) > 1000 {
		clear(errs[1000:])
	}
	unsent := len(frames) > 1 && !slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, errRefused) })
	for i := range errs {
		switch {
		case unsent && c.is("batch of frames that were not sent is reported as renewed"):
			errs[i] = nil
		case unsent && c.is("batch of frames that were not sent loses its leases"):
			errs[i] = backend.ErrLost
		}
	}
	if c.is("batch with a failed frame moves every deadline") &&
		slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return ttls, make([]error, len(errs))
	}
	return ttls, errs
}

// bendFrame returns the answers of frame n with the bug. err is the error of the frame's request. A nil result removes
// the frame.
func (c *client) bendFrame(frame []error, err error, n int) []error {
	lost := slices.ContainsFunc(frame, func(err error) bool { return errors.Is(err, backend.ErrLost) })
	switch {
	case err != nil && c.is("failed frame of a batch is reported as renewed"):
		clear(frame)
	case err != nil && c.is("failed frame of a batch loses its leases"), lost &&
		c.is("loss in a frame of a batch is reported for the whole frame"):
		for k := range frame {
			frame[k] = backend.ErrLost
		}
	case err != nil && c.is("answers after a failed frame move up"):
		return nil
	case n == 1 && c.is("second frame of a batch reports no loss"):
		clear(frame)
	}
	return frame
}
