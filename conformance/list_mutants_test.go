package conformance_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// listMutants are bugs of lists that are read in pages, and of prefixes that are not compared as bytes.
var listMutants = []mutant{
	{"list ends at 100 keys", "ListIsComplete"},
	{"list ends at 1000 keys", "ListIsComplete"},
	{"list ends at 64 KiB", "ListIsComplete"},
	{"next page of a list begins with the last key again", "ListIsComplete"},
	{"pages of a list are counted by keys", "ListIsComplete"},
	{"list returns keys that somebody has only inspected", "ListIsComplete"},
	{"list looks for the prefix anywhere", "ListComparesBytes"},
	{"list takes % at the end for any bytes", "ListComparesBytes"},
	{"list compares text up to NUL", "ListComparesBytes"},
	{"list leaves out keys that are no text", "ListComparesBytes"},
	{"list ends before a prefix of 0xff", "ListComparesBytes"},
	{"list ends with a page that does not arrive", "CutListFails"},
	{"list whose context ends returns the pages before", "CutListFails"},
}

// paged reports whether lists are read in pages.
func (s *server) paged() bool {
	return slices.ContainsFunc(listMutants, func(m mutant) bool { return s.is(m.bug) })
}

// pageLen is how many keys one request reads.
const pageLen = 64

// listPages reads the keys that begin with prefix, page by page.
func (c *client) listPages(ctx context.Context, prefix string) (keys []string, err error) {
	size := 0
	for after := ""; ; {
		var page []string
		n := len(keys)
		if err := c.do(ctx, func() { page = c.server.page(prefix, after, n) }); err != nil {
			switch {
			case ctx.Err() != nil && n > 0 && c.is("list whose context ends returns the pages before"),
				ctx.Err() == nil && n > 0 && c.is("list ends with a page that does not arrive"):
				return keys, nil
			}
			return nil, err
		}
		for _, key := range page {
			size += len(key)
		}
		switch keys = append(keys, page...); {
		case len(page) < pageLen, size >= 64<<10 && c.is("list ends at 64 KiB"),
			len(keys) >= 100 && c.is("list ends at 100 keys"), len(keys) >= 1000 && c.is("list ends at 1000 keys"):
			return keys, nil
		}
		after = page[len(page)-1]
	}
}

// page returns the next page of the list of prefix, in order. The page before ended with the key after. n is the number
// of keys that have been read already.
func (s *server) page(prefix, after string, n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	now := time.Now()
	for key, e := range s.keys {
		live := e.owner != "" && now.Before(e.expires)
		if (live || s.is("list returns keys that somebody has only inspected")) && s.lists(key, prefix) {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	if s.is("pages of a list are counted by keys") {
		all = all[min(n, len(all)):]
	} else {
		from, again := slices.BinarySearch(all, after)
		if again && !s.is("next page of a list begins with the last key again") {
			from++
		}
		all = all[from:]
	}
	return all[:min(pageLen, len(all))]
}

// lists reports whether key belongs to the list of prefix.
func (s *server) lists(key, prefix string) bool {
	switch {
	case s.is("list looks for the prefix anywhere"):
		return strings.Contains(key, prefix)
	case s.is("list takes % at the end for any bytes"):
		prefix = strings.TrimSuffix(prefix, "%")
	case s.is("list compares text up to NUL"):
		text, _, _ := bytes.Cut([]byte(prefix), []byte{0})
		prefix = string(text)
	case s.is("list leaves out keys that are no text"):
		return utf8.ValidString(key) && strings.HasPrefix(key, prefix)
	case s.is("list ends before a prefix of 0xff"):
		return strings.HasPrefix(key, prefix) && !strings.HasSuffix(prefix, "\xff")
	}
	return strings.HasPrefix(key, prefix)
}
