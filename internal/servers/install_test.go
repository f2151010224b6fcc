package servers

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/anylock/lock/internal/moduleroot"
)

// packages are the packages that scripts/install-servers installs. The script detects that a package is installed by
// file.
var packages = []struct{ name, file string }{
	{"redis-server", "/usr/bin/redis-server"},
	{"etcd-server", "/usr/bin/etcd"},
	{"zookeeper", "/usr/share/java/zookeeper.jar"},
	{"memcached", "/usr/bin/memcached"},
	{"postgresql", "/usr/lib/postgresql/15/bin/postgres"},
	{"pgbouncer", "/usr/sbin/pgbouncer"},
	{"chromium", "/usr/bin/chromium"},
	{"mariadb-server-core", "/usr/sbin/mariadbd"},
	{"curl", "/usr/bin/curl"},
	{"python3", "/usr/bin/python3"},
	{"nodejs", "/usr/bin/node"},
}

// aptGet replaces apt-get. It records its arguments, and creates the files of the packages that it is to install.
const aptGet = `#!/bin/bash
echo "$*" >>"$ANYLOCK_SERVERS_ROOT/asked"
for word; do
	file="$ANYLOCK_SERVERS_ROOT/packages/$word"
	if [ -e "$file" ]; then
		path=$ANYLOCK_SERVERS_ROOT$(cat "$file")
		mkdir -p "${path%/*}"
		printf '#!/bin/sh\n' >"$path"
		chmod 755 "$path"
	fi
done
`

// A bareMachine is a folder that scripts/install-servers treats as the root of a machine.
type bareMachine struct{ root string }

func newBareMachine(t *testing.T) bareMachine {
	t.Helper()
	m := bareMachine{t.TempDir()}
	m.write(t, "/bin/apt-get", aptGet)
	m.write(t, "/bin/id", "#!/bin/sh\necho 0\n")
	m.write(t, "/bin/pg_conftool", "#!/bin/sh\nexit 0\n")
	for _, tool := range []string{"bash", "cat", "chmod", "cp", "env", "mkdir", "mv", "rm", "tee"} {
		path, err := exec.LookPath(tool)
		if err == nil {
			err = os.Symlink(path, m.path("/bin/"+tool))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m.write(t, "/etc/postgresql-common/createcluster.conf", "")
	m.write(t, "/usr/sbin/README", "")
	for _, p := range packages {
		m.write(t, "/packages/"+p.name, p.file)
	}
	return m
}

func (m bareMachine) path(path string) string { return filepath.Join(m.root, path) }

func (m bareMachine) write(t *testing.T, path, text string) {
	t.Helper()
	path = m.path(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock() // a process forked meanwhile would keep the file open for writing, which makes it busy
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// install runs the script in dir. It returns the script's output and the packages that the script has requested.
func (m bareMachine) install(t *testing.T, dir string) (out string, asked []string, err error) {
	t.Helper()
	root, err := moduleroot.Find()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(root, "scripts/install-servers"))
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + m.path("/bin") + ":" + m.path("/usr/bin"), "ANYLOCK_SERVERS_ROOT=" + m.root}
	printed, err := cmd.CombinedOutput()
	calls, _ := os.ReadFile(m.path("/asked")) // without calls, there is no file
	for call := range strings.Lines(string(calls)) {
		if _, rest, found := strings.Cut(call, " install "); found {
			for _, word := range strings.Fields(rest) {
				if !strings.HasPrefix(word, "-") {
					asked = append(asked, word)
				}
			}
		}
	}
	return string(printed), asked, err
}

func TestInstallServers(t *testing.T) {
	project, err := moduleroot.Find()
	if err != nil {
		t.Fatal(err)
	}
	decoys := t.TempDir() // contains the names that the script looks for, in a folder that it must not search
	for _, p := range packages {
		if err := os.Mkdir(filepath.Join(decoys, filepath.Base(p.file)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string][]string{"nothing": nil, "everything": nil}
	for _, p := range packages {
		cases[p.name] = []string{p.name}
		cases["everything"] = append(cases["everything"], p.name)
	}
	for where, dir := range map[string]string{"project": project, "decoys": decoys} {
		for lacking, missing := range cases {
			t.Run(lacking+" missing, in "+where, func(t *testing.T) {
				t.Parallel()
				m := newBareMachine(t)
				for _, p := range packages {
					if !slices.Contains(missing, p.name) {
						m.write(t, p.file, "#!/bin/sh\n")
					}
				}
				want := missing
				if slices.Contains(missing, "postgresql") { // the script first makes postgresql-common prevent a database
					want = append([]string{"postgresql-common"}, missing...)
				}
				out, asked, err := m.install(t, dir)
				if err != nil || !slices.Equal(asked, want) {
					t.Errorf("it asked for %q, want %q; %v, printed:\n%s", asked, want, err, out)
				}
				if _, err := os.Stat(m.path("/usr/sbin/policy-rc.d")); !os.IsNotExist(err) {
					t.Errorf("its policy about services is left: %v", err)
				}
			})
		}
	}
}

// Without the right to install packages, the script prints how to run it with that right. It does not suggest apt-get,
// which would start services and create a database.
func TestInstallServersWithoutRights(t *testing.T) {
	t.Parallel()
	m := newBareMachine(t)
	m.write(t, "/bin/id", "#!/bin/sh\necho 1000\n")
	m.write(t, "/bin/sudo", "#!/bin/sh\nexit 1\n") // stands for a sudo that requires a password
	m.write(t, "/usr/bin/redis-server", "#!/bin/sh\n")
	project, err := moduleroot.Find()
	if err != nil {
		t.Fatal(err)
	}
	out, asked, err := m.install(t, project)
	if err == nil || len(asked) > 0 {
		t.Errorf("it asked for %q, and ended with %v", asked, err)
	}
	advice := "sudo " + filepath.Join(project, "scripts/install-servers") +
		" etcd zookeeper memcached postgres pgbouncer chromium mariadb curl python node\n"
	if !strings.Contains(out, advice) || strings.Contains(out, "apt-get") {
		t.Errorf("it printed:\n%s\nwant only this command:\n%s", out, advice)
	}
}

// Without apt-get, the script fails and lists the missing packages.
func TestInstallServersElsewhere(t *testing.T) {
	t.Parallel()
	m := newBareMachine(t)
	if err := os.Remove(m.path("/bin/apt-get")); err != nil {
		t.Fatal(err)
	}
	project, err := moduleroot.Find()
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := m.install(t, project)
	if err == nil {
		t.Error("it finds nothing and does not fail")
	}
	for _, p := range packages {
		if !strings.Contains(out, p.name) {
			t.Errorf("it does not name %s:\n%s", p.name, out)
		}
	}
}
