package servers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ZooKeeperEnv names the environment variable with the URL of a ZooKeeper that tests may use.
const ZooKeeperEnv = "ANYLOCK_TEST_ZOOKEEPER_URL"

// ZooKeeperTick is the tickTime of the servers, in milliseconds. Sessions last between 1 s and 10 s.
const ZooKeeperTick = "500"

var zooKeeperKind = kind{
	name:  "zookeeper",
	find:  findZooKeeper,
	taken: "Address already in use",
}

// findZooKeeper finds a Java and the class path that is installed with ZooKeeper.
func findZooKeeper(testing.TB) (string, bool) {
	if zooKeeperClasses() == "" {
		return "", false
	}
	return find([]string{"java"}, "/usr/lib/jvm/*/bin")
}

// zooKeeperClasses returns the class path of a server, or "" if it is not on this machine.
func zooKeeperClasses() string {
	for _, place := range []string{"/usr/share/zookeeper/lib", "/opt/zookeeper/lib", "/opt/apache-zookeeper*/lib"} {
		if jars, _ := filepath.Glob(filepath.Join(place, "zookeeper-[0-9]*.jar")); len(jars) > 0 {
			return filepath.Join(filepath.Dir(jars[len(jars)-1]), "*")
		}
	}
	// Debian keeps the libraries of all packages in one folder, including several loggers. So list the libraries, with the
	// quiet logger.
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

// ZooKeeperURL returns the URL of a ZooKeeper for tests that do not break their server: $ANYLOCK_TEST_ZOOKEEPER_URL, or
// that of a new server started by [ZooKeeper].
func ZooKeeperURL(t testing.TB) string {
	t.Helper()
	if url := os.Getenv(ZooKeeperEnv); url != "" {
		return url
	}
	return "zookeeper://" + ZooKeeper(t).Addr
}

// ZooKeeper starts a standalone ZooKeeper for the test. lines are additional lines of its configuration, such as
// "maxSessionTimeout=60000", which override the defaults, or properties of its JVM, such as "-Dzookeeper.x=1". The
// server keeps its data after a kill, but forces them to disk only with "forceSync=yes".
func ZooKeeper(t testing.TB, lines ...string) *Server {
	t.Helper()
	g := zooKeeperKind.source(t)
	return g.start(t, g.zooKeeper(lines, ""))
}
