package servers

import "testing"

var redisKind = kind{
	name: "redis-server",
	find: findProgram([]string{"redis-server", "valkey-server"},
		"/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/opt/redis*/bin"),
	taken: "Address already in use",
}

// A redisSpec describes how to run one redis-server.
type redisSpec struct {
	ask      resp
	options  []string                       // of the command line, after those that all servers have
	tls      bool                           // listen with TLS only
	sentinel func(own string) (conf string) // the whole configuration of a sentinel; a sentinel has no options
	files    map[string]string              // by name; in the server's folder, which is its working directory
}

// startRedis starts one server of a group.
func (g *group) startRedis(t testing.TB, spec redisSpec) *Server {
	t.Helper()
	return g.start(t, spec.launch())
}

func (spec redisSpec) launch() launch {
	return launch{command: spec.command, ready: spec.ask.ready,
		empty: without("appendonlydir", "appendonly.aof", "dump.rdb")}
}

// command returns the command line and files of a server.
func (spec redisSpec) command(at place) (args []string, files map[string]string) {
	if spec.sentinel != nil {
		const conf = "sentinel.conf"
		return []string{conf, "--sentinel"}, map[string]string{conf: spec.sentinel(at.port)}
	}
	listen := []string{"--port", at.port}
	if spec.tls {
		listen = []string{"--port", "0", "--tls-port", at.port}
	}
	args = append(listen, "--bind", bindHost, "--protected-mode", "no", "--daemonize", "no",
		"--save", "", "--appendonly", "no", "--appendfsync", "no",
		"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0")
	return append(args, spec.options...), spec.files
}
