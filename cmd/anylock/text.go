package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/anylock/lock"
)

// show returns s for a message of one line: unchanged if readable, otherwise quoted.
func show(s string) string {
	plain := s != "" && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsPrint(r) || r == ' ' || r == '"'
	})
	if plain {
		return s
	}
	return strconv.Quote(s)
}

// oneLine replaces unprintable characters with blanks, so that foreign text, such as a server's error, cannot break the
// line or move the cursor.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}

// hideURLs replaces what follows :// in args by ***, wherever text repeats it: a URL in the wrong place may have a
// password. A text may also repeat a part of a list, up to a comma.
func hideURLs(text string, args []string) string {
	parts := slices.Clone(args)
	for _, arg := range args {
		list := strings.Split(arg, ",")
		parts = append(parts, list[:len(list)-1]...)
	}
	for _, arg := range parts {
		_, rest, found := strings.Cut(arg, "://")
		if !found || !strings.ContainsAny(rest, "@?") {
			continue
		}
		quoted := strconv.Quote(rest)
		for _, shown := range []string{rest, quoted[1 : len(quoted)-1]} {
			text = strings.ReplaceAll(text, "://"+shown, "://***")
		}
	}
	return text
}

// holderText describes a holder as in "4f0c9a1b…@web-3:4711 (token 17, 12.3s left)".
func holderText(h lock.Holder) string {
	var notes []string
	if h.Token != 0 {
		notes = append(notes, fmt.Sprintf("token %d", h.Token))
	}
	if h.TTL > 0 {
		notes = append(notes, shortDuration(h.TTL)+" left")
	}
	if h.Waiters > 0 {
		notes = append(notes, fmt.Sprintf("%d waiting", h.Waiters))
	}
	s := show(shortOwner(h.Owner))
	if h.Shared > 0 {
		s = fmt.Sprintf("%d shared, the longest by %s", h.Shared, s)
	}
	if len(notes) > 0 {
		s += " (" + strings.Join(notes, ", ") + ")"
	}
	return s
}

// shortOwner shortens the random part of an owner, because people do not compare it by eye.
func shortOwner(owner string) string {
	const most = 8
	if random, host, ok := strings.Cut(owner, "@"); ok && len(random) > most {
		return random[:most] + "…@" + host
	}
	return owner
}

// shortDuration rounds d for people: 12.3s, 340ms.
func shortDuration(d time.Duration) string {
	if d >= time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}
