package bench_test

import (
	"bytes"
	"context"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// The page needs nothing from elsewhere, and escapes what it is given.
func TestPageIsSelfContained(t *testing.T) {
	t.Parallel()
	text := pageOf(t)
	for _, bad := range []string{"<script", "http://", "https://", "src=", "@import", "url(", "a toy <& co>"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	for _, want := range []string{"<svg", "a toy &lt;&amp; co&gt;", "prefers-color-scheme: dark", `name="viewport"`,
		"hot-clients"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
}

func pageOf(t *testing.T) string {
	t.Helper()
	b := measured(t, quick(newToy().store("memory"), newToy().store("file"), newToy().store("redis")))
	var page bytes.Buffer
	if err := b.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// TestPageInBrowser opens the page in Chromium: on a desk, on a phone, and in the dark. Nothing is wider than the
// screen, every chart is drawn, and the photographs differ as they should. ANYLOCK_BENCH_PHOTOS names a folder to keep
// them in.
func TestPageInBrowser(t *testing.T) {
	t.Parallel()
	storetest.Long(t, "a browser, started six times")
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		chromium, err = exec.LookPath("chromium-browser")
	}
	if err != nil {
		servers.Missing(t, "no chromium")
	}
	page := pageOf(t)
	photos := os.Getenv("ANYLOCK_BENCH_PHOTOS")
	if photos == "" {
		photos = t.TempDir()
	}
	// The page has no scripts: what measures it is put into a copy.
	const measure = `<script>addEventListener("load", () => {
		const late = [...document.querySelectorAll("svg rect")].filter(r => r.getBoundingClientRect().width < 1).length;
		const cut = [...document.querySelectorAll("svg text")].filter(e => {
			const text = e.getBoundingClientRect(), chart = e.closest("svg").getBoundingClientRect();
			return text.right > chart.right + 1 || text.left < chart.left - 1;
		}).length;
		document.title = ["charts", document.querySelectorAll("svg").length, "thin", late, "cut", cut,
			"wide", document.documentElement.scrollWidth > innerWidth + 1].join(" ");
	})</script>`
	file := filepath.Join(t.TempDir(), "page.html")
	probe := filepath.Join(t.TempDir(), "probe.html")
	write(t, file, page)
	write(t, probe, strings.Replace(page, "</body>", measure+"</body>", 1))
	brightness := make(map[string]float64)
	for name, args := range map[string][]string{
		"desk": {"--window-size=1100,1600"}, "phone": {"--window-size=500,1000"}, // Chromium has no narrower window
		"dark": {"--window-size=1100,1600", "--blink-settings=preferredColorScheme=0"},
	} {
		photo := filepath.Join(photos, name+".png")
		browse(t, chromium, append(args, "--hide-scrollbars", "--screenshot="+photo), file)
		dom := browse(t, chromium, append(args, "--dump-dom"), probe)
		_, title, _ := strings.Cut(dom, "<title>")
		title, _, _ = strings.Cut(title, "</title>")
		if want := "cut 0 wide false"; !strings.HasPrefix(title, "charts ") || strings.HasPrefix(title, "charts 0 ") ||
			!strings.HasSuffix(title, want) {
			t.Errorf("%s: the page measures %q, want charts and %q", name, title, want)
		}
		brightness[name] = brightnessOf(t, photo)
	}
	if brightness["desk"] < 0.8 || brightness["phone"] < 0.8 || brightness["dark"] > 0.35 {
		t.Errorf("the photographs' brightness is %v", brightness)
	}
}

func browse(t *testing.T, chromium string, args []string, file string) string {
	t.Helper()
	args = append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir=" + t.TempDir(),
	}, args...)
	const patience = 3 * time.Minute // a browser that was just installed is read from the disk first
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, chromium, append(args, "file://"+file)...)
	cmd.WaitDelay = time.Minute // for processes that it leaves
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("chromium: %v (%v)\n%s", err, ctx.Err(), &stderr)
	}
	return string(out)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// brightnessOf is between 0, black, and 1, white.
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
			r, g, b, _ := img.At(img.Bounds().Min.X+x, img.Bounds().Min.Y+y).RGBA()
			sum += float64(r+g+b) / (3 * 0xffff)
			n++
		}
	}
	return sum / n
}
