package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/anylock/lock/backend"
)

// judge fails the check unless some order of the store's operations explains what the workers saw.
func (h *history) judge() {
	h.mu.Lock()
	defer h.mu.Unlock()
	ops := h.record.operations(h.t.g)
	model := leaseModel(h.tokens())
	const patience = 20 * time.Second
	verdict, info := porcupine.CheckOperationsVerbose(model, ops, patience)
	switch verdict {
	case porcupine.Ok:
		return
	case porcupine.Unknown:
		h.t.provesNothing("no verdict on a history of %d steps within %v", len(ops), patience)
	}
	if double := h.record.doubleGrant(); double != "" {
		h.t.doubleGrant("%s\n%s\n%s\nseed: %s=%d", double, h.unexplained(info), h.picture(model, info), seedVariable, h.seed)
	}
	h.t.fatalf("no order of these %d steps is one of a store of leases with increasing tokens\n%s\n%s\nseed: %s=%d",
		len(ops), h.unexplained(info), h.picture(model, info), seedVariable, h.seed)
}

// doubleGrant describes two conflicting leases that were certainly live on one key at once. It returns an empty string
// if there were none.
func (r *record) doubleGrant() string {
	for _, x := range r.leases {
		until := x.deadline
		if x.end != endAbandoned {
			until = min(until, x.releaseCalled)
		}
		if x.lostAt > 0 {
			until = min(until, x.lostAt)
		}
		for _, y := range r.leases {
			if x != y && x.key == y.key && !(x.shared && y.shared) && x.granted <= y.granted && y.granted < until &&
				y.granted < y.deadline {
				return fmt.Sprintf("%s was granted the key %v before the end of the lease of %s", ofOwner(y.owner),
					time.Duration(until-y.granted), ofOwner(x.owner))
			}
		}
	}
	return ""
}

// tokens reports whether tokens must increase during the whole history.
func (h *history) tokens() bool {
	least := backend.FencingProcess
	for _, f := range h.record.faults {
		if f.outage {
			least = backend.FencingRestart
		}
	}
	return h.t.g.Fencing >= least
}

// failf fails the check, and shows the last steps of the history.
func (h *history) failf(format string, args ...any) {
	h.mu.Lock()
	const before = time.Second
	steps := h.steps(h.now()-before, h.now(), "")
	h.mu.Unlock()
	h.t.fatalf("%s\n%s\nseed: %s=%d", fmt.Sprintf(format, args...), steps, seedVariable, h.seed)
}

// unexplained describes the first step that has no place in the longest order found, and what happened around it.
func (h *history) unexplained(info porcupine.LinearizationInfo) string {
	var first *porcupine.Operation
	for _, orders := range info.PartialLinearizationsOperations() {
		longest := slices.MaxFunc(orders, func(x, y []porcupine.Operation) int { return cmp.Compare(len(x), len(y)) })
		type place struct {
			op leaseOp
			at int64
		}
		in := make(map[place]bool)
		for _, op := range longest {
			in[place{op.Input.(leaseOp), op.Call}] = true
		}
		for _, op := range h.record.operations(h.t.g) {
			of := op.Input.(leaseOp)
			if len(longest) > 0 && longest[0].Input.(leaseOp).key == of.key && !in[place{of, op.Call}] &&
				(first == nil || op.Return < first.Return) {
				first = &op
			}
		}
	}
	if first == nil {
		return ""
	}
	const around = time.Second
	op := first.Input.(leaseOp)
	return fmt.Sprintf("nothing explains: %s\nwhat happened to the key before and after:\n%s",
		stepLine(instant(first.Call), instant(first.Return), first.ClientId, op.String()),
		h.steps(instant(first.Call)-around, instant(first.Return)+around/4, op.key))
}

// on names a key by its end, unless only one key is listed.
func on(only, key string) string {
	if only != "" {
		return ""
	}
	return ", key …" + key[len(key)-2:]
}

func stepLine(from, to instant, worker int, what string) string {
	return fmt.Sprintf("%9.1fms …%9.1fms  worker %d: %s", ms(from), ms(to), worker, what)
}

func ms(at instant) float64 { return float64(at) / float64(time.Millisecond) }

// steps lists what happened on key, or on all keys if key is empty, with the faults.
func (h *history) steps(from, to instant, key string) string {
	type step struct {
		at   instant
		line string
	}
	var steps []step
	add := func(called, returned instant, worker int, what string) {
		if returned >= from && called <= to {
			steps = append(steps, step{called, stepLine(called, returned, worker, what)})
		}
	}
	for _, op := range h.record.operations(h.t.g) {
		if of := op.Input.(leaseOp); key == "" || of.key == key {
			add(instant(op.Call), instant(op.Return), op.ClientId, of.String()+on(key, of.key))
		}
	}
	for _, a := range h.record.attempts {
		if !a.refused && (key == "" || a.key == key) {
			add(a.called, a.returned, a.worker, "outcome unknown of an attempt by "+ofOwner(a.owner)+on(key, a.key))
		}
	}
	for _, f := range h.record.faults {
		if f.to >= from && f.from <= to {
			steps = append(steps, step{f.from, fmt.Sprintf("%9.1fms …%9.1fms  fault: %s", ms(f.from), ms(f.to), f.what)})
		}
	}
	slices.SortStableFunc(steps, func(x, y step) int { return cmp.Compare(x.at, y.at) })
	const most = 60
	var b strings.Builder
	if over := len(steps) - most; over > 0 {
		fmt.Fprintf(&b, "  (%d steps before)\n", over)
		steps = steps[over:]
	}
	for _, s := range steps {
		b.WriteString("  " + s.line + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// picture writes porcupine's drawing to a file, and returns a line with the file's path.
func (h *history) picture(model porcupine.Model, info porcupine.LinearizationInfo) string {
	var notes []porcupine.Annotation
	for _, f := range h.record.faults {
		notes = append(notes, porcupine.Annotation{Tag: "faults", Start: int64(f.from), End: int64(f.to),
			Description: f.what})
	}
	for _, a := range h.record.attempts {
		if !a.refused {
			notes = append(notes, porcupine.Annotation{Tag: "unknown", Start: int64(a.called), End: int64(a.returned),
				Description: "attempt by " + ofOwner(a.owner)})
		}
	}
	info.AddAnnotations(notes)
	f, err := os.CreateTemp(os.Getenv(dirVariable), "conformance-*.html")
	if err == nil {
		err = errors.Join(porcupine.Visualize(model, info, f), f.Close())
	}
	if err != nil {
		return fmt.Sprintf("no picture: %v", err)
	}
	return "picture: " + f.Name()
}
