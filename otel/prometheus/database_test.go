package prometheus_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// A database keeps what was scraped, for Prometheus's own engine.
type database struct {
	t      *testing.T
	series map[uint64]*line
	engine *promql.Engine
	at     []time.Time // of the scrapes
}

// A line is one time series.
type line struct {
	labels  labels.Labels
	samples []chunks.Sample
}

func newDatabase(t *testing.T) *database {
	return &database{t: t, series: make(map[uint64]*line), engine: promql.NewEngine(promql.EngineOpts{
		MaxSamples: 10_000_000, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{}),
	})}
}

// scrape keeps what a server would read now from a process of this job.
func (db *database) scrape(from prometheus.Gatherer) {
	db.t.Helper()
	now := time.Now()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(from, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	p, err := textparse.New(answer.Body.Bytes(), answer.Header().Get("Content-Type"), nil, textparse.ParserOptions{})
	if err != nil || answer.Code != 200 {
		db.t.Fatalf("scrape: %d %s, %v", answer.Code, answer.Header().Get("Content-Type"), err)
	}
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			db.t.Fatal(err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var l labels.Labels
		p.Labels(&l)
		_, _, value := p.Series()
		db.add(now, value, labels.NewBuilder(l).Set("job", "shop").Set("instance", "web-1:9090").Labels())
	}
	db.at = append(db.at, now)
}

func (db *database) add(at time.Time, value float64, l labels.Labels) {
	s := db.series[l.Hash()]
	if s == nil {
		s = &line{labels: l}
		db.series[l.Hash()] = s
	}
	s.samples = append(s.samples, sample{at.UnixMilli(), value})
}

// query is the answer to an expression.
func (db *database) query(expr string, at time.Time) promql.Vector {
	db.t.Helper()
	q, err := db.engine.NewInstantQuery(context.Background(), db, nil, expr, at)
	if err != nil {
		db.t.Fatalf("%s: %v", expr, err)
	}
	defer q.Close()
	v, err := q.Exec(context.Background()).Vector()
	if err != nil {
		db.t.Fatalf("%s: %v", expr, err)
	}
	v = slices.Clone(v)
	return slices.DeleteFunc(v, func(s promql.Sample) bool { return math.IsNaN(s.F) })
}

// Querier implements storage.Queryable.
func (db *database) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: db.choose}, nil
}

func (db *database) choose(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &found{}
	for _, s := range db.series {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.labels.Get(m.Name)) }) {
			found.rest = append(found.rest, s)
		}
	}
	slices.SortFunc(found.rest, func(a, b *line) int { return labels.Compare(a.labels, b.labels) })
	return found
}

// sample implements chunks.Sample.
type sample struct {
	t int64 // in milliseconds
	f float64
}

func (s sample) T() int64                      { return s.t }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.f }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// found is a storage.SeriesSet: the first of rest is at hand after a Next.
type found struct {
	rest  []*line
	begun bool
}

func (f *found) Next() bool {
	if f.begun {
		f.rest = f.rest[1:]
	}
	f.begun = true
	return len(f.rest) > 0
}

func (f *found) At() storage.Series {
	return storage.NewListSeries(f.rest[0].labels, f.rest[0].samples)
}
func (f *found) Err() error                        { return nil }
func (f *found) Warnings() annotations.Annotations { return nil }
