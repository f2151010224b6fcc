package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// A Report contains the results of a run.
type Report struct {
	Time        time.Time      `json:"time"`
	Machine     string         `json:"machine"`
	Go          string         `json:"go"`
	Server      string         `json:"server,omitempty"`
	Settings    Settings       `json:"settings"`
	Interrupted bool           `json:"interrupted,omitempty"`
	Stores      []StoreInfo    `json:"stores"`
	Measures    []Measure      `json:"measures"`
	Scenarios   []ScenarioInfo `json:"scenarios"`
	Results     []*Result      `json:"results"`
}

// Settings are the options of a run.
type Settings struct {
	Rounds   int     `json:"rounds"`
	Duration float64 `json:"duration_seconds"`
	Clients  int     `json:"clients"`
	Workers  int     `json:"workers,omitempty"`      // 0 for the scenario's own
	Hold     float64 `json:"hold_seconds,omitempty"` // 0 for the scenario's own, negative for none
	Held     int     `json:"held"`
}

// A StoreInfo names a store.
type StoreInfo struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

// A ScenarioInfo names a scenario.
type ScenarioInfo struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Main  string `json:"main_measure"`
}

// A Result contains the measurements of one scenario on one store.
type Result struct {
	Scenario string            `json:"scenario"`
	Store    string            `json:"store"`
	Figures  map[string]Figure `json:"figures,omitempty"`
	Rounds   []Sample          `json:"rounds,omitempty"`
	Note     string            `json:"note,omitempty"`    // how the run differed from the options
	Skipped  string            `json:"skipped,omitempty"` // why the scenario does not apply
	Problem  string            `json:"problem,omitempty"` // why there are no results, or no further ones

	waits [][]time.Duration // of every round, sorted
}

func newReport(o Options, scenarios []Scenario) *Report {
	b := &Report{
		Time: time.Now(), Machine: machine(), Go: runtime.Version(), Server: o.Server, Measures: Measures,
		Settings: Settings{o.Rounds, o.Duration.Seconds(), o.Clients, o.Workers, o.Hold.Seconds(), o.Held},
	}
	if o.Hold < 0 {
		b.Settings.Hold = -1
	}
	for _, s := range o.Stores {
		b.Stores = append(b.Stores, StoreInfo{s.Name, s.About})
	}
	for _, s := range scenarios {
		b.Scenarios = append(b.Scenarios, ScenarioInfo{s.Name, s.Title, s.Main.Name})
	}
	return b
}

// machine describes this machine.
func machine() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores, %s", model, runtime.NumCPU(), runtime.GOOS)
}

// result returns the Result of a scenario on a store, and adds it if there is none.
func (b *Report) result(scenario, store string) *Result {
	if r := b.Result(scenario, store); r != nil {
		return r
	}
	r := &Result{Scenario: scenario, Store: store}
	b.Results = append(b.Results, r)
	return r
}

// Result returns the Result of a scenario on a store, or nil if there is none.
func (b *Report) Result(scenario, store string) *Result {
	for _, r := range b.Results {
		if r.Scenario == scenario && r.Store == store {
			return r
		}
	}
	return nil
}

// Figure returns a measure of a scenario on a store, and reports whether it was measured.
func (b *Report) Figure(scenario, store string, m Measure) (Figure, bool) {
	r := b.Result(scenario, store)
	if r == nil {
		return Figure{}, false
	}
	f, ok := r.Figures[m.Name]
	return f, ok
}

func (r *Result) add(s Sample, waits []time.Duration) {
	r.Rounds = append(r.Rounds, s)
	if len(waits) > 0 {
		r.waits = append(r.waits, waits)
	}
}

// finish summarizes the rounds, and orders the results by scenario and store. It removes the results that an
// interruption has left empty.
func (b *Report) finish() *Report {
	ordered := []*Result{}
	scenarios := []ScenarioInfo{}
	for _, sc := range b.Scenarios {
		before := len(ordered)
		for _, s := range b.Stores {
			r := b.Result(sc.Name, s.Name)
			if r == nil || len(r.Rounds) == 0 && r.Problem == "" && r.Skipped == "" {
				continue
			}
			ordered = append(ordered, r)
			values := make(map[string][]float64)
			for _, round := range r.Rounds {
				for name, v := range round {
					values[name] = append(values[name], v)
				}
			}
			r.Figures = make(map[string]Figure)
			for name, v := range values {
				r.Figures[name] = newFigure(v)
			}
			setQuantiles(r.Figures, r.waits)
		}
		if len(ordered) > before {
			scenarios = append(scenarios, sc)
		}
	}
	b.Results, b.Scenarios = ordered, scenarios
	return b
}

// WriteJSON writes the report as one JSON object; times are in seconds.
func (b *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(b)
}

// ReadJSON reads what WriteJSON wrote.
func ReadJSON(r io.Reader) (*Report, error) {
	b := new(Report)
	if err := json.NewDecoder(r).Decode(b); err != nil {
		return nil, fmt.Errorf("bench: read report: %w", err)
	}
	return b, nil
}

// measuresOf returns the measures that any store has in a scenario, in the order of tables.
func (b *Report) measuresOf(scenario string) []Measure {
	var found []Measure
	for _, m := range Measures {
		for _, s := range b.Stores {
			if _, ok := b.Figure(scenario, s.Name, m); ok {
				found = append(found, m)
				break
			}
		}
	}
	return found
}
