package prober_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// counted returns the metrics of probes in the form NAME LABELS VALUE.
func (w *world) counted(t *testing.T) []string {
	t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, label := range m.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			value := m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			found = append(found, fmt.Sprintf("%s %s %.0f", family.GetName(), strings.Join(labels, ","), value))
		}
	}
	return found
}

// TestMetrics counts probes by their results. Labels are sorted by their names.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		p, stop := start(t, w)
		defer stop()
		web := pod(corev1.Container{LivenessProbe: exec("live", func(p *corev1.Probe) { p.FailureThreshold = 100 })})
		p.Add(web)
		time.Sleep(21 * time.Second)
		w.set("live", 1)
		time.Sleep(10 * time.Second)
		w.mu.Lock()
		w.err = errors.New("away")
		w.mu.Unlock()
		time.Sleep(10 * time.Second)
		want := []string{
			"prober_probe_duration_seconds c,default,web,Liveness 4",
			"prober_probe_total c,default,web,u,Liveness,failed 1",
			"prober_probe_total c,default,web,u,Liveness,successful 3",
			"prober_probe_total c,default,web,u,Liveness,unknown 1",
		}
		if got := w.counted(t); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		p.Remove("u")
		synctest.Wait()
		if got := w.counted(t); len(got) != 0 {
			t.Errorf("after the pod has gone: %q", got)
		}
	})
}
