package store_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// BenchmarkWrite measures the cost of a fence: an update without one, with one, and with one whose
// lease is renewed through another apiserver before each write, which is then retried.
func BenchmarkWrite(b *testing.B) {
	for _, how := range []string{"plain", "fenced", "fenced, renewed before each"} {
		b.Run(how, func(b *testing.B) {
			servers := etcdtest.New(b)
			opened := func() *store.Store {
				s, err := store.Open(b.Context(), store.Config{Servers: servers, Table: table})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() {
					if err := s.Close(); err != nil {
						b.Error(err)
					}
				})
				return s
			}
			s, other := opened(), opened()
			ctx := b.Context()
			fenced := lead(b, s, "one")
			if how != "plain" {
				ctx = fenced
			}
			kind := scheme.For[*corev1.ConfigMap](table)
			if _, err := s.Create(ctx, kind, configMap("default", "a", "1")); err != nil {
				b.Fatal(err)
			}
			for i := 0; b.Loop(); i++ {
				if how == "fenced, renewed before each" {
					b.StopTimer()
					renew(b, other)
					b.StartTimer()
				}
				if _, err := s.Update(ctx, kind, "default", "a", setLabel(fmt.Sprint(i))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
