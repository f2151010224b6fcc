package servers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
)

// zooKeeperData is the folder with all data of a server except its number.
const zooKeeperData = "version-2"

// zooKeeper returns how to run one server with additional lines of configuration. id is its number in an ensemble, ""
// outside one.
func (g *group) zooKeeper(lines []string, id string) launch {
	const conf = "zoo.cfg"
	var jvm []string
	lines = slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		property := strings.HasPrefix(line, "-D")
		if property {
			jvm = append(jvm, line)
		}
		return property
	})
	return launch{
		command: func(at place) (args []string, files map[string]string) {
			own := []string{
				"tickTime=" + ZooKeeperTick, "initLimit=10", "syncLimit=4",
				"dataDir=./.", "clientPort=" + at.port, "clientPortAddress=" + bindHost,
				"admin.enableServer=false", "4lw.commands.whitelist=*", "maxClientCnxns=0",
				"forceSync=no", "preAllocSize=1024",
			}
			files = map[string]string{conf: strings.Join(append(own, lines...), "\n") + "\n"}
			if id != "" {
				files["myid"] = id
			}
			jvm := append([]string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}, jvm...)
			return append(jvm, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
				"-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
				"-cp", zooKeeperClasses(), "org.apache.zookeeper.server.quorum.QuorumPeerMain", "./"+conf), files
		},
		ready: zooKeeperReady,
		empty: without(zooKeeperData),
	}
}

// zooKeeperReady compares the server's folder, because another server may have the same port, and checks that the
// server serves.
func zooKeeperReady(ctx context.Context, s *Server) error {
	text, err := ZooKeeperAsk(ctx, s.Addr, "envi")
	if err != nil {
		return err
	}
	dir, err := filepath.EvalSymlinks(s.Dir)
	if err != nil {
		return err
	}
	if !strings.Contains(text, "\nuser.dir="+dir+"\n") && !strings.Contains(text, "\nuser.dir="+s.Dir+"\n") {
		return fmt.Errorf("a server of another folder answers on %s", s.Addr)
	}
	mode, err := ZooKeeperMode(ctx, s.Addr)
	if err == nil && mode == "" {
		err = fmt.Errorf("it does not serve yet")
	}
	return err
}

// ZooKeeperMode returns a server's role: "leader", "follower" or "standalone". It returns "" if the server does not
// serve.
func ZooKeeperMode(ctx context.Context, addr string) (string, error) {
	text, err := ZooKeeperAsk(ctx, addr, "srvr")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode), nil
		}
	}
	return "", nil
}

// ZooKeeperAsk sends a four-letter command to a server on a new connection, and returns the reply.
func ZooKeeperAsk(ctx context.Context, addr, word string) (string, error) {
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
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	b, err := io.ReadAll(bufio.NewReader(conn))
	if err != nil {
		return "", err
	}
	if len(b) == 0 {
		return "", fmt.Errorf("%s: no answer", word)
	}
	return string(b), nil
}
