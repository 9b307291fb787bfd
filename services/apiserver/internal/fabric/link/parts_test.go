package link

import (
	"slices"
	"testing"

	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/server/config"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// TestParts checks that each kind is published once, by the publisher of its etcd cluster and to
// that publisher's log.
func TestParts(t *testing.T) {
	t.Parallel()
	table := scheme.New()
	cfg := config.Etcd{ServersOverrides: []string{"/events#" + etcdtest.New(t)[0], "coordination.k8s.io/leases#" + etcdtest.New(t)[0]}}
	overrides, err := cfg.Overrides()
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Config{Servers: etcdtest.New(t), Table: table, Overrides: overrides})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	published := map[string]string{}
	all := parts(config.Log{}, s, table, bustest.New(t))
	for _, part := range all {
		for _, kind := range table.Kinds() {
			if !kind.Stored() || !part.Holds(kind) {
				continue
			}
			if part.Storage != s.Of(kind) {
				t.Errorf("the publisher of %s is elected in another etcd", kind.Resource)
			}
			name := kind.GroupResource().String()
			if other, twice := published[name]; twice {
				t.Errorf("%s is published by %q and by %q", name, other, part.Name)
			}
			published[name] = part.Name
		}
		// The logs can exist side by side.
		log, err := part.OpenLog(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
	}
	for _, kind := range table.Kinds() {
		want := ""
		if name := kind.GroupResource().String(); slices.Contains([]string{"events", "leases.coordination.k8s.io"}, name) {
			want = name
		}
		if got, ok := published[kind.GroupResource().String()]; kind.Stored() && (!ok || got != want) {
			t.Errorf("%s is published by %q, want %q", kind.GroupResource(), got, want)
		}
	}
}
