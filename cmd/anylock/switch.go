package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/pair"
)

func (a *app) switchCommand() *cobra.Command {
	format := newChoice("text", "json")
	var from, to text
	var within time.Duration
	var pass uint64
	var withoutTokens bool
	cmd := &cobra.Command{
		Use:   "switch --from URL --to URL",
		Short: "Plan a switch of stores without two owners",
		Long: `switch prints the steps that lead processes from one store to another while they run: what to deploy, in which order, and
what the other store promises less. It takes and releases locks on a key of its own at the store of --from, to see how its numbers grow.
Passwords are printed as ***: put them in again.

With --pass N it takes numbers at the store of --from until they have reached N, the cut that a plan has told.

Exit codes: 0 here is the plan, or the cut is passed; 64 wrong usage, or no switch between these is safe; 69 a store cannot be
reached.`,
		Example: `  anylock switch --from redis://cache-1 --to etcd://etcd-1
  anylock switch --from redis://cache-1 --to etcd://etcd-1 --within 2h --format json
  anylock switch --from redis://cache-1 --pass 1790000000000000`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from.s == "" {
				return usagef("--from is missing")
			}
			if within <= 0 {
				return usagef("--within %v is not positive", within)
			}
			old, err := openSwitched(cmd.Context(), from.s)
			if err != nil {
				return err
			}
			defer old.Close()
			if cmd.Flags().Changed("pass") {
				return a.passCut(cmd.Context(), old, pass)
			}
			if to.s == "" {
				return usagef("--to is missing")
			}
			next, err := openSwitched(cmd.Context(), to.s)
			if err != nil {
				return err
			}
			defer next.Close()
			if err := unsafeSwitch(old, next, withoutTokens); err != nil {
				return usagef("no switch between these is safe: %w", err)
			}
			p, err := planSwitch(cmd.Context(), old, next, within)
			if err != nil {
				return err
			}
			if format.is("json") {
				return writeJSON(a.stdout, p)
			}
			_, err = fmt.Fprint(a.stdout, p.text())
			return err
		},
	}
	flags := cmd.Flags()
	flags.Var(&from, "from", "the `URL` of the store that is used now")
	flags.Var(&to, "to", "the `URL` of the store to use")
	flags.DurationVar(&within, "within", 24*time.Hour, "how long it takes at most until every process uses both")
	flags.Uint64Var(&pass, "pass", 0, "take numbers at --from until they have reached `N`")
	flags.BoolVar(&withoutTokens, "without-tokens", false, "nothing checks fencing tokens: a store may have none")
	flags.Var(format, "format", format.usage())
	return cmd
}

// A switched store is one of the two.
type switched struct {
	backend.Backend
	other     backend.Backend // one more client: a number of the same session may cost less than one of the next
	name, url string          // without a base
	plain     string          // the same without secrets
	prefix    string
	base      uint64
}

func openSwitched(ctx context.Context, rawURL string) (*switched, error) {
	s := new(switched)
	wrong := func(err error) (*switched, error) {
		code := exitUnavailable
		if errors.Is(err, backend.ErrInvalid) || errors.Is(err, backend.ErrUnsupported) {
			code = exitUsage
		}
		return nil, &exitError{code: code, err: backend.CleanError(rawURL, err)}
	}
	var err error
	if s.url, s.base, err = backend.TakeTokenBase(rawURL); err != nil {
		return wrong(err)
	}
	rest, prefix, _, err := backend.TakeParam(s.url, "lock_prefix")
	if err != nil {
		return wrong(err)
	}
	s.prefix, s.plain = prefix, withoutSecrets(s.url)
	if s.Backend, s.name, err = backend.DefaultMux.Open(ctx, rest); err != nil {
		return wrong(err)
	}
	if s.other, _, err = backend.DefaultMux.Open(ctx, rest); err != nil {
		s.Backend.Close()
		return wrong(err)
	}
	return s, nil
}

// Close implements backend.Backend.
func (s *switched) Close() error { return errors.Join(s.other.Close(), s.Backend.Close()) }

// withoutSecrets is rawURL with *** for each secret.
func withoutSecrets(rawURL string) string {
	scheme, rest, _ := strings.Cut(rawURL, ":") // without its scheme an error that has to be cleaned of secrets only
	return scheme + ":" + backend.CleanError(rawURL, errors.New(rest)).Error()
}

// unsafeSwitch tells why two stores cannot follow each other, whatever the deploys are.
func unsafeSwitch(old, next *switched, withoutTokens bool) error {
	g, h := old.Guarantees(), next.Guarantees()
	switch {
	case old.url == next.url:
		return errors.New("both are the same store")
	case old.name == "pair" || next.name == "pair":
		return errors.New("one is a pair already: finish that switch first")
	case g.Reach == backend.ReachProcess || h.Reach == backend.ReachProcess:
		return errors.New("one is for a single process, so that no two processes share it")
	case h.Reach < g.Reach:
		return fmt.Errorf("%s excludes owners of one %s only, %s those of one %s", next.name, h.Reach, old.name, g.Reach)
	case withoutTokens:
		return nil
	case g.Fencing == backend.FencingNone || h.Fencing == backend.FencingNone:
		return errors.New("one has no fencing tokens; --without-tokens says that nothing checks them")
	}
	return nil
}

// A switchPlan is what switch prints.
type switchPlan struct {
	From    string   `json:"from"`
	Both    string   `json:"both"`
	To      string   `json:"to"`
	Cut     uint64   `json:"cut,string"` // texts: programs that read numbers as floats would round them
	Base    uint64   `json:"token_base,string"`
	Found   string   `json:"found_by"`
	Changes []string `json:"guarantees_changed"`
	Steps   []string `json:"steps"`
}

// tokensEnd is the least that the numbers of the next store keep free.
const tokensEnd = backend.TokenLimit / 2

func planSwitch(ctx context.Context, old, next *switched, within time.Duration) (*switchPlan, error) {
	cut, found, limit, err := findCut(ctx, old, within)
	if err != nil {
		return nil, err
	}
	if cut >= tokensEnd {
		return nil, usagef("no switch between these is safe: the cut %d leaves no room for numbers below 2^55", cut)
	}
	p := &switchPlan{From: withBase(old.plain, old.base), To: withBase(next.plain, cut), Cut: cut, Base: cut, Found: found,
		Changes: changes(old.Guarantees(), next.Guarantees())}
	p.Both = pair.URL(p.From, p.To, cut)
	p.Steps = []string{
		"Deploy " + p.Both + " to every process, in any order, " + limit + ". Go on when none uses " + p.From + " alone any more.",
		"Run anylock switch --from " + shellQuote(p.From) + " --pass " + strconv.FormatUint(cut, 10) +
			". Go on when it has ended with 0.",
		"Deploy " + p.To + " to every process, in any order. Keep lock_token_base for good. When none uses both any more, the switch is done.",
	}
	return p, nil
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func withBase(url string, base uint64) string {
	if base == 0 {
		return url
	}
	sep := "?"
	if strings.Contains(url, "?") {
		sep = "&"
	}
	return url + sep + "lock_token_base=" + strconv.FormatUint(base, 10)
}

// number takes a lock on a key that nobody else has, and returns its number.
func (s *switched) number(ctx context.Context, key string) (uint64, error) {
	const ttl = 10 * time.Second
	s.Backend, s.other = s.other, s.Backend
	l, err := s.Acquire(ctx, backend.Request{Key: s.prefix + key, Owner: backend.NewOwner(), TTL: ttl})
	if err == nil {
		err = l.Release(ctx)
	}
	if err != nil {
		return 0, storeError(backend.CleanError(s.url, err))
	}
	n, err := backend.AddTokenBase(l.Token(), s.base)
	if err != nil {
		return 0, usagef("%w", err)
	}
	return n, nil
}

func probeKey() string { return "anylock-switch-" + rand.Text() }

// findCut is a number of the store that it does not reach within the time, how it was found, and when it is reached.
func findCut(ctx context.Context, s *switched, within time.Duration) (cut uint64, found, limit string, err error) {
	const probes, watched = 20, time.Second
	key := probeKey()
	first, err := s.number(ctx, key)
	if err != nil || first == 0 {
		return 0, "the store has no numbers", "when you like", err
	}
	last := first
	for range probes {
		if last, err = s.number(ctx, key); err != nil {
			return 0, "", "", err
		}
	}
	step := max(1, (last-first)/probes)
	begun := time.Now()
	if err := backend.Sleep(ctx, watched); err != nil {
		return 0, "", "", storeError(err)
	}
	now, err := s.number(ctx, key)
	if err != nil {
		return 0, "", "", err
	}
	passed := uint64(time.Since(begun).Microseconds())
	if grown := now - last; grown > passed*9/10 && grown < passed*11/10+step {
		cut = now + uint64(within.Microseconds())
		return cut, fmt.Sprintf("the number %d of a probe now; they follow a clock in microseconds, so it is reached in %v", now, within),
			"within " + within.String(), nil
	}
	// All that others took in the second that was watched, twice, and never fewer than some thousands.
	const least = 10_000
	grown := (now - last) - min(now-last, step)
	room := max(least*step, 2*grown*uint64(within/watched+1))
	return now + room, fmt.Sprintf("the number %d of a probe now, and room for %d more: one lock takes up to %d, and in the second watched others took %d",
		now, room, step, grown), fmt.Sprintf("within %v, and before %d more numbers are used", within, room), nil
}

func (a *app) passCut(ctx context.Context, s *switched, cut uint64) error {
	key := probeKey()
	for {
		n, err := s.number(ctx, key)
		switch {
		case err != nil:
			return err
		case n == 0:
			return usagef("the store has no numbers")
		case n >= cut:
			_, err := fmt.Fprintf(a.stdout, "passed: the store's number is %d, the cut %d\n", n, cut)
			return err
		}
		a.sayVerbose("number %d, cut %d", n, cut)
		const clock = 1_000_000 // further away than this, do not take numbers as fast as they come
		if cut-n > clock {
			if err := backend.Sleep(ctx, 10*time.Millisecond); err != nil {
				return storeError(err)
			}
		}
	}
}

// changes lists what is promised otherwise.
func changes(g, h backend.Guarantees) []string {
	list := []string{}
	for _, c := range []struct {
		what      string
		was, will any
	}{
		{"reach", g.Reach, h.Reach}, {"consistency", g.Consistency, h.Consistency}, {"early loss", orNever(g.EarlyLoss), orNever(h.EarlyLoss)},
		{"enforced by", g.EnforcedBy, h.EnforcedBy}, {"fencing survives", g.Fencing, h.Fencing}, {"first come, first served", g.FIFO, h.FIFO},
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

func orNever(s string) string {
	if s == "" {
		return "never"
	}
	return s
}

func (p *switchPlan) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "from  %s\nto    %s\nbase  %d, which is the cut too: %s\n\nwhat is promised otherwise (on the way there, the weaker of each):\n",
		p.From, p.To, p.Base, p.Found)
	for _, c := range p.Changes {
		fmt.Fprintf(&b, "  %s\n", c)
	}
	b.WriteString("\nsteps:\n")
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "  %d. %s\n", i+1, s)
	}
	b.WriteString("\nback: anylock switch with --from and --to exchanged, each as it is deployed then\n")
	return b.String()
}
