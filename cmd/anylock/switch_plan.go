package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/pair"
)

// unsafeSwitch returns why no switch between two stores is safe, whatever is deployed in which order. It returns nil if
// one is.
func unsafeSwitch(old, next *switchStore) error {
	g, h := old.Backend.Guarantees(), next.Backend.Guarantees()
	switch {
	case old.url == next.url:
		return errors.New("both are the same store")
	case old.Name == "pair" || next.Name == "pair":
		return errors.New("one is already a pair: finish that switch first")
	case g.Reach == backend.ReachProcess || h.Reach == backend.ReachProcess:
		return errors.New("one exists only inside a single process, so no two processes share it")
	case h.Reach < g.Reach:
		return fmt.Errorf("%s excludes owners of one %s only, %s those of one %s", next.Name, h.Reach, old.Name, g.Reach)
	case g.Fencing == backend.FencingNone || h.Fencing == backend.FencingNone:
		return errors.New("one has no fencing tokens")
	}
	return nil
}

// A switchPlan is the output of switch.
type switchPlan struct {
	From    string   `json:"from"`
	Both    string   `json:"both"`
	To      string   `json:"to"`
	Cut     uint64   `json:"cut,string"` // strings: programs that parse numbers as floats would round them
	Base    uint64   `json:"token_base,string"`
	Found   string   `json:"found_by"`
	Changes []string `json:"guarantees_changed"`
	Steps   []string `json:"steps"`
}

// spare is how far above the cut the numbers of the next store begin. If a deploy took too long or the numbers have
// jumped, processes may use the old store alone beyond the cut. Without spare, their tokens would stay above those of
// all later owners. spare is twelve days of a clock in microseconds, or 256 leaders of ZooKeeper.
const spare = 1 << 40

func planSwitch(ctx context.Context, old, next *switchStore, within time.Duration) (*switchPlan, error) {
	cut, err := old.findCut(ctx, within)
	if err != nil {
		return nil, err
	}
	const most = backend.TokenLimit / 2 // leaves room for the numbers of the next store
	if cut.number >= most {
		return nil, fmt.Errorf("%w: the cut %d leaves no room for numbers below 2^55", backend.ErrUnsupported, cut.number)
	}
	base := cut.number + spare
	p := &switchPlan{Cut: cut.number, Base: base, Found: cut.found,
		Changes: changes(old.Backend.Guarantees(), next.Backend.Guarantees())}
	p.setURLs(withBase(old.url, old.TokenBase), withBase(next.url, base))
	from := "--from " + printableWord(p.From)
	if old.file != "" {
		from = "--from-file " + printableWord(old.file)
	}
	p.Steps = []string{
		"Deploy " + p.Both + " to every process, in any order, " + cut.limit + ". Continue when no process uses only " +
			p.From + " any more.",
		"Run anylock switch " + from + " --pass " + strconv.FormatUint(p.Cut, 10) +
			". Continue when this command has exited with 0.",
		"Deploy " + p.To + " to every process, in any order. Keep lock_token_base permanently. When no process uses both " +
			"stores any more, the switch is done.",
	}
	return p, nil
}

// setURLs sets the URLs to deploy, with *** for each password.
func (p *switchPlan) setURLs(from, to string) {
	p.From, p.To = escapeUnprintable(driver.Mask(from)), escapeUnprintable(driver.Mask(to))
	p.Both = escapeUnprintable(driver.Mask(pair.URL(from, to, p.Cut)))
}

// escapeUnprintable replaces bytes of characters that are not printable, such as those that move the cursor, by %XX.
func escapeUnprintable(rawURL string) string {
	var b strings.Builder
	for i, r := range rawURL {
		if _, n := utf8.DecodeRuneInString(rawURL[i:]); !unicode.IsPrint(r) || r == utf8.RuneError && n == 1 {
			b.WriteString(driver.Escape(rawURL[i : i+n]))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// fillRule explains how to turn a URL with *** into a working URL.
const fillRule = "replace each *** by the password in its place, with %XX for every byte but letters and digits. " +
	"At the end of a URL, lock_password=*** has the passwords of the URLs inside, in their order"

// withBase returns rawURL with a token base.
func withBase(rawURL string, base uint64) string {
	if base == 0 {
		return rawURL
	}
	sep := "?"
	if strings.Contains(rawURL, "?") {
		sep = "&"
	}
	return rawURL + sep + "lock_token_base=" + strconv.FormatUint(base, 10)
}

// changes lists the guarantees that differ.
func changes(g, h backend.Guarantees) []string {
	list := []string{}
	for _, c := range []struct {
		what      string
		was, will any
	}{
		{"reach", g.Reach, h.Reach}, {"consistency", g.Consistency, h.Consistency},
		{"early loss", cmp.Or(g.EarlyLoss, "never"), cmp.Or(h.EarlyLoss, "never")},
		{"reports a loss", g.ReportsLoss, h.ReportsLoss}, {"enforced by", g.EnforcedBy, h.EnforcedBy},
		{"fencing survives", g.Fencing, h.Fencing}, {"first come, first served", g.FIFO, h.FIFO},
		{"shared leases", g.Shared, h.Shared},
		{"waiters", g.Wake, h.Wake}, {"min ttl", g.MinTTL, h.MinTTL}, {"granularity", g.Granularity, h.Granularity},
		{"max ttl (0: ten years)", g.MaxTTL, h.MaxTTL}, {"max silence (0: the ttl)", g.MaxSilence, h.MaxSilence},
		{"max late", g.MaxLate, h.MaxLate}, {"max leases (0: any)", g.MaxLeases, h.MaxLeases},
	} {
		if c.was != c.will {
			list = append(list, fmt.Sprintf("%s: %v, then %v", c.what, c.was, c.will))
		}
	}
	return list
}

func (p *switchPlan) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "from  %s\nto    %s\ncut   %d: %s\nbase  %d, above what the old store may use beyond the "+
		"cut\n\npromises that change (during the switch, the weaker of each pair holds):\n",
		p.From, p.To, p.Cut, p.Found, p.Base)
	for _, c := range p.Changes {
		fmt.Fprintf(&b, "  %s\n", c)
	}
	b.WriteString("\nsteps:\n")
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "  %d. %s\n", i+1, s)
	}
	if strings.Contains(p.Both, "***") {
		b.WriteString("\npasswords: " + fillRule + "\n")
	}
	b.WriteString("\nto go back: run anylock switch with --from and --to swapped, each with the URL that is " +
		"deployed by then\n")
	return b.String()
}
