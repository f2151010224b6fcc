package lockhttp_test

import (
	"bytes"
	"context"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/lockhttp"
	"github.com/anylock/lock/memory"
)

// The page loads nothing from other addresses, and does not use innerHTML.
func TestPageIsSelfContained(t *testing.T) {
	text, err := os.ReadFile("status.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"http://", "https://", " src=", "@import", "url(", "innerHTML"} {
		if strings.Contains(string(text), bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
}

// TestPageInBrowser opens the status page in Chromium: in a wide window, in a narrow window, and in dark mode.
// ANYLOCK_PAGE_PHOTOS names a folder in which to keep the screenshots.
func TestPageInBrowser(t *testing.T) {
	storetest.Long(t, "a browser, started three times")
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		chromium, err = exec.LookPath("chromium-browser")
	}
	switch {
	case err != nil && os.Getenv("ANYLOCK_TEST_REQUIRE") != "":
		t.Fatal("chromium is missing: scripts/install-servers installs it")
	case err != nil:
		t.Skip("chromium is missing")
	}
	photos := os.Getenv("ANYLOCK_PAGE_PHOTOS")
	if photos == "" {
		photos = t.TempDir()
	}
	url := busyServer(t)
	brightness := make(map[string]float64)
	for name, args := range map[string][]string{
		"desk": {"--window-size=1100,900"}, "phone": {"--window-size=500,1400"}, // Chromium has no narrower window
		"dark": {"--window-size=1100,900", "--blink-settings=preferredColorScheme=0"},
	} {
		photo := filepath.Join(photos, name+".png")
		browse(t, chromium, url, append(args, "--hide-scrollbars", "--screenshot="+photo)...)
		dom := browse(t, chromium, url, append(args, "--dump-dom")...)
		for _, want := range []string{"<title>fits</title>", "grants locks", "db/&lt;b&gt;migrate&lt;/b&gt;", "brief",
			"another-process", "(web-3)", "shared", "exclusive"} {
			if !strings.Contains(dom, want) {
				t.Errorf("%s: %q is not in\n%s", name, want, dom)
			}
		}
		if strings.Contains(dom, "<b>migrate") {
			t.Errorf("%s: a key is taken for HTML", name)
		}
		brightness[name] = brightnessOf(t, photo)
	}
	if brightness["desk"] < 0.8 || brightness["phone"] < 0.8 || brightness["dark"] > 0.35 {
		t.Errorf("the photographs' brightness is %v", brightness)
	}
}

// busyServer serves the status page of a server with holders, waiters and a loss. The page's title shows whether the
// page fits in the window.
func busyServer(t *testing.T) string {
	store := memory.NewStore()
	locks, err := lock.New(store.Client())
	if err != nil {
		t.Fatal(err)
	}
	other, err := lock.New(store.Client())
	if err != nil {
		t.Fatal(err)
	}
	server, err := lockhttp.New(locks, lockhttp.Options{StartDelay: -1, MaxTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	const measure = `<script>setInterval(() => {
		const tall = [...document.querySelectorAll("th, td.n, td.t")].some((cell) => cell.getBoundingClientRect().width > 0 &&
			getComputedStyle(cell).display === "table-cell" && cell.scrollWidth > cell.clientWidth + 1);
		const wraps = [...document.querySelectorAll("thead tr")].some((row) =>
			getComputedStyle(row).display === "table-row" && row.clientHeight > 45);
		document.title = document.documentElement.scrollWidth > innerWidth + 1 ? "too wide" : tall || wraps ? "cut" : "fits";
	}, 50)</script>`
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.ServeHTTP(w, r)
		if r.URL.Path == "/" {
			_, _ = w.Write([]byte(measure))
		}
	}))
	t.Cleanup(func() {
		_ = server.Shutdown(context.Background())
		listener.Close()
		locks.Close()
		other.Close()
	})
	if _, err := other.Acquire(t.Context(), "reports/nightly", lock.WithOwner("another-process@batch-2:871"),
		lock.WithTTL(time.Hour)); err != nil {
		t.Fatal(err)
	}
	put := func(key, owner string, query ...string) {
		q, _ := http.NewRequest("PUT", listener.URL+of(key, append(query, "owner", owner)...), nil)
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Error(err)
			return
		}
		r.Body.Close()
	}
	put("brief", "4f0c9a1b22d84e5f8d1c3b7a90e6f215@web-1", "ttl_ms", "50")
	put("deploy", "c1f9a1b22d84e5f8d1c3b7a90e6f2150@ci-runner-14", "ttl_ms", "3600000")
	put("catalogue", "5d2e9a1b22d84e5f8d1c3b7a90e6f2150", "ttl_ms", "600000", "shared", "true", "label", "web-3")
	put("catalogue", "8ab19a1b22d84e5f8d1c3b7a90e6f2150", "ttl_ms", "600000", "shared", "true", "label", "web-4")
	put("db/<b>migrate</b>", "77aa9a1b22d84e5f8d1c3b7a90e6f2150@web-3", "ttl_ms", "600000")
	put("tenant/"+strings.Repeat("very-long-name-", 12), "9e019a1b22d84e5f8d1c3b7a90e6f2150@web-2", "ttl_ms", "90000")
	for _, owner := range []string{"w1", "w2"} {
		go put("deploy", owner, "wait_ms", "60000")
	}
	for {
		if waiters, leases, _, _, _ := server.InUse(); waiters == 2 && leases == 5+2 {
			return listener.URL
		}
		time.Sleep(10 * time.Millisecond) // sleeps: between two looks at the counts
	}
}

func browse(t *testing.T, chromium, url string, args ...string) string {
	t.Helper()
	args = append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--virtual-time-budget=1500", "--user-data-dir=" + t.TempDir(),
	}, args...)
	const patience = 3 * time.Minute // a browser that was just installed is read from the disk first
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium, append(args, url)...)
	cmd.WaitDelay = time.Minute // for processes that Chromium leaves behind
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("chromium: %v (%v)\n%s", err, ctx.Err(), &stderr)
	}
	return string(out)
}

// brightnessOf returns the mean brightness of an image, from 0 (black) to 1 (white).
func brightnessOf(t *testing.T, path string) float64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	var sum, n float64
	for y := 0; y < img.Bounds().Dy(); y += 7 {
		for x := 0; x < img.Bounds().Dx(); x += 7 {
			r, g, b, _ := img.At(x, y).RGBA()
			sum += float64(r+g+b) / (3 * 0xffff)
			n++
		}
	}
	return sum / n
}
