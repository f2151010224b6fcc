// Package journal reads what processes have recorded about their leases, and finds overlapping leases that exclude each
// other. It uses no code of the library, so that an error in the library cannot hide itself.
//
// A journal is a file to which all processes append. One line is one event. Times are nanoseconds of the kernel's
// monotonic clock, which all processes of a machine share; ID is the process id, a dot and a number.
//
//   - ID r|w KEY TOKEN TIME DEADLINE   at TIME, the holder knew of the lease, a reader's or writer's, until DEADLINE
//     = ID TIME DEADLINE                 at TIME, the holder still had the lease, now until DEADLINE
//   - ID TIME                          at TIME, before the release was requested, the holder stopped using the lease
//     x ID TIME                          at TIME, the holder learned that it had lost the lease
//     ! PID TIME FAULT                   a fault of the process begins or ends: see the constants
//     ? PID TIME TEXT                    an error that no fault explains
//
// A holder records a time only if, after it had read the clock, it found the lease live, because the process may be
// stopped anywhere. So a lease counts from its first line until the first of these events: its last DEADLINE, its
// release, the notice of its loss, the kill of its process.
package journal

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Faults of a process.
const (
	Kill  = "kill"  // the process is killed: its leases end
	Stop  = "stop"  // SIGSTOP
	Cont  = "cont"  // SIGCONT
	Drop  = "drop"  // its network link swallows everything
	Reset = "reset" // its connections are reset
	Heal  = "heal"  // its link works again
)

// A lease is one lease as its holder saw it.
type lease struct {
	id, pid  string
	writer   bool
	key      string
	token    int64
	since    int64
	deadline int64
	ended    int64 // by a release, a loss or a kill; 0 without any of them
	how      string
}

// until returns when the lease stops counting.
func (l *lease) until() int64 {
	if l.ended != 0 {
		return min(l.ended, l.deadline)
	}
	return l.deadline
}

func (l *lease) String() string {
	mode := "reader"
	if l.writer {
		mode = "writer"
	}
	return fmt.Sprintf("%s %s of %s, token %d, %d to %d (deadline %d, %s)",
		mode, l.id, l.key, l.token, l.since, l.until(), l.deadline, l.how)
}

// A fault is a line that begins with !.
type fault struct {
	pid, what string
	at        int64
}

// A Journal is the content of a journal.
type Journal struct {
	leases []*lease
	faults []fault
	errors []string
}

// Read reads a journal. A malformed line is an error, except the last one, which a kill may have cut off.
func Read(r io.Reader) (*Journal, error) {
	j := new(Journal)
	open := make(map[string]*lease)
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			j.killed(open)
			return j, nil
		}
		if err == nil {
			err = j.add(open, strings.TrimSuffix(line, "\n"))
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
}

// shapes contains the number of fields of each kind of line, and which fields are numbers.
var shapes = map[string]struct {
	fields  int
	numbers []int
}{
	"+": {7, []int{4, 5, 6}},
	"=": {4, []int{2, 3}},
	"-": {3, []int{2}},
	"x": {3, []int{2}},
	"!": {4, []int{2}},
	"?": {4, []int{2}},
}

// add adds one line. open contains the leases that have not ended, by ID.
func (j *Journal) add(open map[string]*lease, line string) error {
	kind, _, _ := strings.Cut(line, " ")
	shape, ok := shapes[kind]
	f := strings.SplitN(line, " ", max(shape.fields, 1))
	if !ok || len(f) != shape.fields {
		return fmt.Errorf("malformed: %q", line)
	}
	var numbers []int64
	for _, i := range shape.numbers {
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			return err
		}
		numbers = append(numbers, n)
	}
	switch kind {
	case "+":
		pid, _, _ := strings.Cut(f[1], ".")
		l := &lease{id: f[1], pid: pid, writer: f[2] == "w", key: f[3], token: numbers[0], since: numbers[1],
			deadline: numbers[2], how: "held"}
		open[l.id] = l
		j.leases = append(j.leases, l)
		return nil
	case "!":
		j.faults = append(j.faults, fault{f[1], f[3], numbers[0]})
		return nil
	case "?":
		j.errors = append(j.errors, line)
		return nil
	}
	l := open[f[1]]
	if l == nil {
		return fmt.Errorf("no such lease: %q", line)
	}
	if kind == "=" {
		l.deadline = numbers[1]
		return nil
	}
	delete(open, l.id)
	l.ended, l.how = numbers[0], map[string]string{"-": "released", "x": "lost"}[kind]
	return nil
}

// killed ends the open leases of processes that were killed.
func (j *Journal) killed(open map[string]*lease) {
	for _, f := range j.faults {
		if f.what != Kill {
			continue
		}
		for _, l := range open {
			if l.pid == f.pid && l.since <= f.at {
				l.ended, l.how = f.at, "killed"
			}
		}
	}
}
