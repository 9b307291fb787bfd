package bus_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// cpu returns the processor time that the process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkConnect measures a client that connects to NATS and authenticates, all in one process:
// client, nats-server, apiserver and etcd. NATS itself knows the apiservers' own key; the apiserver
// decides on the others. 500 operations are a plane of 500 nodes after a restart of NATS.
func BenchmarkConnect(b *testing.B) {
	s := harness.New(b, etcdtest.New(b))
	s.Start()
	trusted := s.TrustedConfig()
	for _, c := range []struct {
		name string
		cfg  bus.Config
	}{
		{"static key", trusted},
		{"node", client.BusConfig(s.Service("system:node:n1"), bus.Config{})},
		{"controllers", client.BusConfig(s.Service("system:kube-controller-manager"), bus.Config{})},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.cfg.URLs, c.cfg.Name = s.Bus.Config().URLs, "bench"
			began := cpu(b)
			b.SetParallelism(25) // 50 at a time on two processors
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					conn, err := bus.Connect(b.Context(), c.cfg)
					if err != nil {
						b.Error(err)
						return
					}
					conn.Close()
				}
			})
			b.ReportMetric(float64((cpu(b)-began).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}
