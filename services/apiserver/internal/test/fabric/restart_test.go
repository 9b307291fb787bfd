package fabric_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// count returns the sum of a metric of followers.
func count(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	all, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range all {
		if family.GetName() == "garboard_follow_"+name {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// TestOnlyApiserverKilled: the only apiserver is killed and another one started while the dead
// one's lease is still alive. An informer of the whole resource becomes current through what the
// new one publishes; no responder answers it.
func TestOnlyApiserverKilled(t *testing.T) {
	etcd, server := etcdtest.Start(t), bustest.NewServer(t)
	random := rand.New(rand.NewPCG(3, 4))
	direct, err := store.Open(t.Context(), store.Config{Servers: etcd.Endpoints(), Table: table, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := direct.Close(); err != nil {
			t.Error(err)
		}
	})
	_, stop := replica(t, etcd, server.Connect())
	registry := prometheus.NewRegistry()
	whole := newCountedView(t, server, "whole", informer.View{}, func(*corev1.Pod) bool { return true }, registry)
	churn(t, direct, random, 50)
	whole.await(t, direct)
	reach := func(what string, done func() bool) {
		t.Helper()
		for end := time.After(patience); !done(); {
			select {
			case <-end:
				t.Fatalf("timed out waiting for %s", what)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	reach("the second ask after the start", func() bool { return count(t, registry, "asks_total") >= 2 })
	// The next publisher does not know what the log has not acknowledged.
	now, err := direct.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reach("progress", func() bool { return whole.informer.Revision() >= now })

	stop()
	lease := etcd.Dead(t, "/garboard/election/registry/publisher", "killed")
	churn(t, direct, random, 50)
	replicaThat(t, etcd, server.Connect(), false)
	if now, err = direct.Revision(t.Context()); err != nil {
		t.Fatal(err)
	}
	reach("the changes meanwhile", func() bool { return whole.informer.Revision() >= now })
	if !etcd.Lives(t, lease) {
		t.Error("the lease of the dead apiserver has expired")
	}
	whole.await(t, direct)
}
