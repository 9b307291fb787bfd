package proxy

import (
	"context"
	"log/slog"
	"net/netip"
	"runtime"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
)

// TestRunInNamespace has the whole proxy in the node's network namespace, twice: the second takes over
// from the first.
func TestRunInNamespace(t *testing.T) {
	l := newLab(t, plans()["IPv4"])
	if err := l.conn.DeleteTable(l.family, l.table.name); err != nil {
		t.Fatal(err)
	}
	service, slice := l.service(nil), l.slice(l.local)
	slice.Labels = map[string]string{"kubernetes.io/service-name": service.Name}
	for _, which := range []string{"first", "second"} {
		table := scheme.New()
		quiet := slog.New(slog.DiscardHandler)
		factory := informer.NewFactory(informer.FactoryConfig{
			Source: listwatch.New(fake.New(table, service, slice), quiet), Table: table, Logger: quiet,
		})
		p, err := New(Config{
			Factory: factory, NodeName: "n1", NodeIPs: []netip.Addr{netip.MustParseAddr(l.nodeAddr())}, Table: l.table.name,
			PodCIDRs: func() []netip.Prefix { return l.node.PodCIDRs }, HealthAddress: l.nodeAddr() + ":10256", Logger: quiet,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- factory.Run(ctx) }()
		go func() {
			// The thread ends with the goroutine.
			runtime.LockOSThread()
			if err := netns.Set(l.nodeNS); err != nil {
				t.Errorf("entering the node's namespace: %v", err)
			}
			ended <- p.Run(ctx)
		}()
		l.must(p.Ready(ctx))
		l.expect(which+": a client", l.clientNS, l.nodeAddr(), 30080, "local")
		l.expect(which+": a pod", l.otherNS, l.cluster, 80, "local "+l.other)
		if got := l.dial(l.clientNS, l.nodeAddr(), 10256); got == "refused" {
			t.Errorf("%s: the health port is %s", which, got)
		}
		cancel()
		l.must(<-ended)
		l.must(<-ended)
		l.expect(which+" has ended: a client", l.clientNS, l.nodeAddr(), 30080, "local")
	}
}
