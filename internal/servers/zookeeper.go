package servers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ZooKeeperEnv names the environment variable with the URL of a ZooKeeper that tests may use.
const ZooKeeperEnv = "ANYLOCK_TEST_ZOOKEEPER_URL"

// ZooKeeperTick is the tickTime of the servers, in milliseconds: sessions last from 1 s to 10 s.
const ZooKeeperTick = "500"

var zooKeeperKind = kind{
	name:  "zookeeper",
	find:  findZooKeeper,
	taken: "Address already in use",
}

// findZooKeeper looks for a Java and for the class path that is installed with ZooKeeper.
func findZooKeeper(testing.TB) (string, bool) {
	if zooKeeperClasses() == "" {
		return "", false
	}
	return find([]string{"java"}, "/usr/lib/jvm/*/bin")
}

// zooKeeperClasses is the class path of a server, empty if it is not on this machine.
func zooKeeperClasses() string {
	for _, place := range []string{"/usr/share/zookeeper/lib", "/opt/zookeeper/lib", "/opt/apache-zookeeper*/lib"} {
		if jars, _ := filepath.Glob(filepath.Join(place, "zookeeper-[0-9]*.jar")); len(jars) > 0 {
			return filepath.Join(filepath.Dir(jars[len(jars)-1]), "*")
		}
	}
	// Debian keeps the libraries of all packages in one folder, several loggers among them: a list, with the quiet one.
	const debian = "/usr/share/java"
	var path []string
	for _, name := range []string{
		"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "netty-all", "netty-codec", "metrics-core", "snappy-java",
		"commons-cli",
	} {
		jar := filepath.Join(debian, name+".jar")
		if _, err := os.Stat(jar); err != nil {
			return ""
		}
		path = append(path, jar)
	}
	return strings.Join(path, string(os.PathListSeparator))
}

// ZooKeeperURL returns the URL of a ZooKeeper for tests that do not break their server: $ANYLOCK_TEST_ZOOKEEPER_URL,
// else that of a new server as by [ZooKeeper].
func ZooKeeperURL(t testing.TB) string {
	t.Helper()
	if url := os.Getenv(ZooKeeperEnv); url != "" {
		return url
	}
	return "zookeeper://" + ZooKeeper(t).Addr
}

// ZooKeeper starts a standalone ZooKeeper of the test's own. lines are more lines of its configuration, as in
// "maxSessionTimeout=60000", which win over ours, or properties of its JVM, as in "-Dzookeeper.x=1". It keeps its data
// over a kill, but does not force it to the disk without "forceSync=yes".
func ZooKeeper(t testing.TB, lines ...string) *Server {
	t.Helper()
	g := zooKeeperKind.source(t)
	return g.start(t, g.zooKeeper(lines, ""))
}
