package consistency

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a cache and the etcd that it follows: revisions by key.
type world struct {
	cached, stored map[string]int64
	unreadable     []string
	readErr        error
	scanErr        error
	anew           int
}

func (w *world) Read(context.Context, fabric.View, int64) (feed.Reading, error) {
	reading := feed.Reading{Revision: 9, Unreadable: w.unreadable}
	for key, revision := range w.cached {
		namespace, name, _ := strings.Cut(key, "/")
		reading.Items = append(reading.Items, feed.Item{Key: key, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, ResourceVersion: strconv.FormatInt(revision, 10),
		}}})
	}
	return reading, w.readErr
}

func (w *world) ReadAnew() { w.anew++ }

func (w *world) Scan(_ context.Context, _ *scheme.Kind, revision int64, take func([]store.Record)) error {
	if revision != 9 {
		return errors.New("another revision than the cache's was asked for")
	}
	for key, at := range w.stored {
		namespace, name, _ := strings.Cut(key, "/")
		take([]store.Record{{Namespace: namespace, Name: name, Revision: at}})
	}
	return w.scanErr
}

// counted returns how many checks of a kind had a status.
func counted(t *testing.T, c *Checker, labels ...string) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.checks.WithLabelValues(labels...).Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

// TestChecks checks what is counted and logged, and when a cache is read anew.
func TestChecks(t *testing.T) {
	both := func() map[string]int64 { return map[string]int64{"a/x": 3, "a/y": 5, "b/x": 7} }
	for name, tc := range map[string]struct {
		world  world
		status string
		says   string
	}{
		"equal":      {world{cached: both(), stored: both()}, "success", ""},
		"empty":      {world{}, "success", ""},
		"missing":    {world{cached: map[string]int64{"a/x": 3, "a/y": 5}, stored: both()}, "failure", "etcd has b/x of revision 7, the cache has revision"},
		"too much":   {world{cached: both(), stored: map[string]int64{"a/x": 3, "b/x": 7}}, "failure", "the cache has a/y of revision 5, etcd does not"},
		"old":        {world{cached: map[string]int64{"a/x": 2}, stored: map[string]int64{"a/x": 3}}, "failure", `etcd has a/x of revision 3, the cache has revision \"2\"`},
		"swapped":    {world{cached: map[string]int64{"a/x": 5, "a/y": 3}, stored: map[string]int64{"a/x": 3, "a/y": 5}}, "failure", "at revision 9"},
		"unreadable": {world{cached: map[string]int64{"a/x": 3}, stored: map[string]int64{"a/x": 3, "a/y": 5}, unreadable: []string{"a/y"}}, "success", ""},
		"not ready":  {world{readErr: errors.New("not ready")}, "error", "not ready"},
		"compacted":  {world{scanErr: errors.New("compacted")}, "error", "compacted"},
		"removed":    {world{readErr: scheme.ErrRemoved}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			w := &tc.world
			table := scheme.New()
			c := New(Config{
				Table: table, Storage: w, Cache: func(*scheme.Kind) Cache { return w },
				Logger: slog.New(slog.NewTextHandler(&log, nil)), Registerer: prometheus.NewRegistry(),
			})
			c.check(t.Context(), scheme.For[*corev1.ConfigMap](table))
			for _, status := range []string{"success", "failure", "error"} {
				got, want := counted(t, c, "", "configmaps", status), 0.0
				if status == tc.status {
					want = 1
				}
				if got != want {
					t.Errorf("%v checks were a %s, want %v", got, status, want)
				}
			}
			if (w.anew == 1) != (tc.status == "failure") || !strings.Contains(log.String(), tc.says) || (tc.says == "") != (log.Len() == 0) {
				t.Errorf("read anew %d times; the log is %q, want %q", w.anew, log.String(), tc.says)
			}
		})
	}
}

// TestRun checks that all stored kinds are compared every few minutes, until the end.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, table := &world{}, scheme.New()
		c := New(Config{Table: table, Storage: w, Cache: func(*scheme.Kind) Cache { return w }, Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		exposed := make(chan prometheus.Metric, 1000)
		c.checks.Collect(exposed)
		if len(exposed) < 50 {
			t.Errorf("%d kinds are shown before the first check", len(exposed))
		}
		time.Sleep(time.Hour)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		kinds := 0
		for _, kind := range table.Kinds() {
			if !kind.Stored() {
				continue
			}
			kinds++
			if n := counted(t, c, kind.Group, kind.Resource, "success"); n < 6 || n > 20 {
				t.Errorf("%s was compared %v times in an hour", kind.Resource, n)
			}
		}
		if kinds < 50 {
			t.Errorf("%d kinds are stored", kinds)
		}
	})
}
