package servers

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// A resp sends commands to a Redis server in its wire protocol (RESP2), on a new connection for each command. It does
// not use the client library, because that is part of what is tested.
type resp struct {
	tls      *tls.Config
	password string
}

// ask sends one command and returns its reply: string, int64, []any or nil. It returns an error reply as an error.
func (r resp) ask(ctx context.Context, addr string, args ...string) (any, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	if r.tls != nil {
		conn = tls.Client(conn, r.tls)
	}
	in := bufio.NewReader(conn)
	if r.password != "" {
		if _, err := exchange(conn, in, "AUTH", r.password); err != nil {
			return nil, err
		}
	}
	return exchange(conn, in, args...)
}

func exchange(out io.Writer, in *bufio.Reader, args ...string) (any, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return nil, err
	}
	return readReply(in)
}

func readReply(in *bufio.Reader) (any, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return nil, fmt.Errorf("empty reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, fmt.Errorf("server: %s", rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("bad reply %q", line)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case kind == '*':
		list := make([]any, n)
		for i := range list {
			if list[i], err = readReply(in); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("bad reply %q", line)
}

// info returns the fields of a reply that consists of "name:value" lines, such as those of INFO and CLUSTER INFO.
func (r resp) info(ctx context.Context, addr string, args ...string) (map[string]string, error) {
	reply, err := r.ask(ctx, addr, args...)
	if err != nil {
		return nil, err
	}
	text, _ := reply.(string)
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// pairs converts a reply of alternating names and values into a map.
func pairs(reply any) map[string]string {
	list, _ := reply.([]any)
	fields := make(map[string]string, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		fields[name], _ = list[i+1].(string)
	}
	return fields
}
