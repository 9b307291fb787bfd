package cronjob

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// TestSkew checks that it is observed how late a Job is created.
func TestSkew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		registry := prometheus.NewRegistry()
		p.Config.Registerer = registry
		p.Declare(New)
		p.Start()
		p.Load(hourly(nil))
		time.Sleep(2*time.Hour + time.Minute)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() != "cronjob_controller_job_creation_skew_duration_seconds" {
				continue
			}
			h := family.GetMetric()[0].GetHistogram()
			if h.GetSampleCount() != 2 || h.GetSampleSum() < 0 || h.GetSampleSum() > 20 {
				t.Errorf("%d Jobs with a delay of %v s in all, want 2 and a few seconds", h.GetSampleCount(), h.GetSampleSum())
			}
			return
		}
		t.Error("there is no such metric")
	})
}
