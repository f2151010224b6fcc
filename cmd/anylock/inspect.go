package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/spf13/cobra"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
)

func (a *app) inspectCommand() *cobra.Command {
	format := newChoice("text", "json")
	cmd := &cobra.Command{
		Use:   "inspect KEY",
		Short: "Show who holds a lock",
		Long: `inspect shows who holds KEY, how much time is left unless the lease is renewed,
and how many wait, as far as the store knows. The answer may be out of date by
the time it is printed. Permits of "run --permits" have keys of their own:
"anylock list KEY/permit/" shows their holders, where the store can list keys.
Otherwise inspect KEY/permit/0 and so on.

Exit codes: 0 the key is held; 1 it is free; 64 wrong usage; 69 the store
cannot be reached; 74 the answer cannot be written.`,
		Example: `  anylock inspect nightly
  anylock inspect --format json nightly`,
		Args: exactArgs("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key := args[0]
			_, h, end, err := a.openAndInspect(cmd.Context(), key)
			if err != nil {
				return err
			}
			defer end()
			switch {
			case format.is("json"):
				err = writeJSON(a.stdout, newHolderRecord(key, h))
			case h.Held():
				_, err = fmt.Fprintf(a.stdout, "%s is held by %s\n", show(key), holderText(h))
			default:
				_, err = fmt.Fprintf(a.stdout, "%s is free\n", show(key))
			}
			if err == nil && !h.Held() {
				err = exitWith(exitFree)
			}
			return err
		},
	}
	cmd.Flags().Var(format, "format", format.usage())
	return cmd
}

// openAndInspect opens the store and inspects key. end closes the store.
func (a *app) openAndInspect(
	ctx context.Context, key string,
) (locks *lock.Locker, h lock.Holder, end func() error, err error) {
	if err := backend.ValidateKey(key); err != nil {
		return nil, h, nil, usagef("KEY: %w", err)
	}
	if locks, err = a.open(ctx); err != nil {
		return nil, h, nil, err
	}
	if h, err = locks.Ops().Inspect(ctx, key); err != nil {
		return nil, h, nil, errors.Join(storeError(err), locks.Close())
	}
	return locks, h, locks.Close, nil
}

// A holderRecord is the JSON form of a holder. Fields that the store does not know are null.
type holderRecord struct {
	Key     string   `json:"key"`
	Held    bool     `json:"held"`
	Owner   *string  `json:"owner"`
	Token   *uint64  `json:"token,string"` // a string: programs that parse numbers as floats would round it
	TTL     *float64 `json:"ttl_seconds"`
	Waiters *int     `json:"waiters"`
	Shared  int      `json:"shared"` // how many shared holders the key has; 0 for an exclusive holder
}

func newHolderRecord(key string, h lock.Holder) holderRecord {
	r := holderRecord{Key: key, Held: h.Held(), Shared: h.Shared}
	if h.Held() {
		r.Owner = &h.Owner
	}
	if h.Token != 0 {
		r.Token = &h.Token
	}
	if h.TTL > 0 {
		seconds := h.TTL.Seconds()
		r.TTL = &seconds
	}
	if h.Waiters >= 0 {
		r.Waiters = &h.Waiters
	}
	return r
}

// writeJSON is encodeJSON with indentation, for human readers too.
func writeJSON(w io.Writer, v any) error { return encodeJSON(w, v, "  ") }

// encodeJSON writes v as JSON. It escapes characters that are not printable, such as those that move the cursor or
// reverse the text direction. Without indent the output is one line.
func encodeJSON(w io.Writer, v any, indent string) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	var safe strings.Builder
	for _, r := range b.String() {
		if r == '\n' || unicode.IsPrint(r) {
			safe.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&safe, `\u%04x`, unit)
		}
	}
	_, err := io.WriteString(w, safe.String())
	return err
}
