package publish_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// series returns the value of the only series of a metric; false if there is none.
func (c candidate) series(name string) (float64, bool) {
	all, err := c.registry.Gather()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, family := range all {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue(), true
		}
	}
	return 0, false
}

// TestMetricsOfPublishers checks that a standby reports that it does not lead, so that the sum
// shows when no process does, and that only the publisher reports its progress.
func TestMetricsOfPublishers(t *testing.T) {
	t.Parallel()
	etcd, server := etcdtest.Start(t), bustest.NewServer(t)
	until := func(what string, holds func() bool) {
		t.Helper()
		deadline, tick := time.After(time.Minute), time.NewTicker(10*time.Millisecond)
		defer tick.Stop()
		for !holds() {
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatalf("timed out waiting for: %s", what)
			}
		}
	}
	leader := wait(t, etcd, server.Connect())
	until("a publisher", leader.leads)
	standby := wait(t, etcd, server.Connect())
	put := leader.put(&corev1.Pod{ObjectMeta: meta("default", "a")})
	until("the revision that was sent", func() bool {
		sent, _ := leader.series("garboard_publisher_revision")
		return int64(sent) >= put
	})
	until("a standby that says so", func() bool {
		leads, told := standby.series("garboard_publisher_leader")
		return told && leads == 0
	})
	if sent, told := standby.series("garboard_publisher_revision"); told {
		t.Errorf("a standby says that it sent everything up to %v", sent)
	}
	leader.stop()
	if sent, told := leader.series("garboard_publisher_revision"); told {
		t.Errorf("a former publisher reports that it sent everything up to %v", sent)
	}
	if leads, told := leader.series("garboard_publisher_leader"); !told || leads != 0 {
		t.Errorf("a former publisher reports that it leads: %v, %v", leads, told)
	}
	until("the standby to publish", func() bool {
		sent, _ := standby.series("garboard_publisher_revision")
		return standby.leads() && int64(sent) >= put
	})
}
