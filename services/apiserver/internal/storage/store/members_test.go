package store_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// TestMembers checks that an apiserver is a member from its announcement until it leaves, or has
// not renewed it for too long. Its record must be where Kubernetes' own apiservers keep theirs.
func TestMembers(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	s := open(t, store.Config{Servers: etcd.Endpoints()})
	one, other := netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("2001:db8::1")
	check := func(when string, want ...netip.Addr) {
		t.Helper()
		if got, err := s.Members(t.Context()); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, %v, want %v", when, got, err, want)
		}
	}
	check("at first")
	keep := func(address netip.Addr, life time.Duration) {
		t.Helper()
		if err := s.KeepMember(t.Context(), address, life); err != nil {
			t.Fatal(err)
		}
	}
	keep(other, time.Hour)
	keep(one, time.Hour)
	keep(one, time.Hour)
	check("two live", one, other)
	values := etcd.Values(t, "/registry/masterleases/")
	for key, value := range values {
		if !strings.HasPrefix(value, "k8s\x00") || !strings.Contains(value, "Endpoints") {
			t.Errorf("%s holds %q", key, value)
		}
	}
	if len(values) != 2 || len(values["/registry/masterleases/192.0.2.10"]) == 0 {
		t.Errorf("etcd holds %v", values)
	}
	if err := s.ForgetMember(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	check("one has gone", other)
	// The last announcement counts.
	keep(other, time.Second)
	deadline := time.Now().Add(2 * time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := s.Members(t.Context())
		if err == nil && len(got) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a silent apiserver is still a member: %v, %v", got, err)
		}
		<-tick.C
	}
}
