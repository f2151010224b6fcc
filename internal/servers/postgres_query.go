package servers

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// postgresQuery runs one statement as the superuser on a new connection, and returns the first column of the last row.
// It uses the wire protocol (version 3, simple query), because users who import a store would download a client library
// with the store's tests.
func postgresQuery(ctx context.Context, addr, sql string) (value string, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	const version = 3 << 16
	startup := binary.BigEndian.AppendUint32(nil, version)
	startup = append(startup, "user\x00"+postgresUser+"\x00database\x00postgres\x00\x00"...)
	if _, err := conn.Write(withLength(startup)); err != nil {
		return "", err
	}
	in := bufio.NewReader(conn)
	if _, err := readUntilReady(in); err != nil {
		return "", err
	}
	if _, err := conn.Write(append([]byte{'Q'}, withLength([]byte(sql+"\x00"))...)); err != nil {
		return "", err
	}
	if value, err = readUntilReady(in); err != nil {
		return "", err
	}
	_, err = conn.Write(append([]byte{'X'}, withLength(nil)...)) // ends the session
	return value, err
}

// withLength puts the length of a message in front of it. The length includes its own four bytes.
func withLength(message []byte) []byte {
	const size = 4
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message)+size)), message...)
}

// readUntilReady reads messages until the server is ready for a query, and returns the first column of the last row
// received.
func readUntilReady(in *bufio.Reader) (value string, err error) {
	for {
		var head struct {
			Kind   byte
			Length uint32
		}
		if err := binary.Read(in, binary.BigEndian, &head); err != nil {
			return "", err
		}
		const size, most = 4, 1 << 20
		if head.Length < size || head.Length > most {
			return "", fmt.Errorf("a message of %d bytes", head.Length)
		}
		body := make([]byte, head.Length-size)
		if _, err := io.ReadFull(in, body); err != nil {
			return "", err
		}
		switch head.Kind {
		case 'Z':
			return value, nil
		case 'E':
			return "", errors.New(strings.ReplaceAll(strings.Trim(string(body), "\x00"), "\x00", " "))
		case 'R':
			if binary.BigEndian.Uint32(body) != 0 {
				return "", errors.New("the server wants a password")
			}
		case 'D':
			const columns, length = 2, 4 // bytes of the counts before the first column
			n := int32(binary.BigEndian.Uint32(body[columns:]))
			value = ""
			if n > 0 {
				value = string(body[columns+length:][:n])
			}
		}
	}
}
