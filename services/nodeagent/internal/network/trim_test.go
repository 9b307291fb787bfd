package network

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/service"
)

func TestDrop(t *testing.T) {
	object := func(annotations map[string]string, managers ...string) *corev1.Service {
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1", ResourceVersion: "2", Labels: map[string]string{"a": "b"}, Annotations: annotations},
			Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.1"},
		}
		for _, m := range managers {
			s.ManagedFields = append(s.ManagedFields, metav1.ManagedFieldsEntry{Manager: m})
		}
		return s
	}
	applied := corev1.LastAppliedConfigAnnotation
	for name, tc := range map[string]struct{ is, want *corev1.Service }{
		"nothing to drop":   {object(map[string]string{"x": "y"}), object(map[string]string{"x": "y"})},
		"no annotations":    {object(nil, "kubectl"), object(nil)},
		"managers, applied": {object(map[string]string{"x": "y", applied: "{}"}, "a", "b"), object(map[string]string{"x": "y"})},
	} {
		for range 2 {
			drop(tc.is)
			if diff := cmp.Diff(tc.want, tc.is); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

// TestInformersDrop follows Services and EndpointSlices as the parts do: neither keeps what drop drops.
func TestInformersDrop(t *testing.T) {
	for name, cfg := range map[string]Config{"dns": {DNS: DNS{On: true}}, "proxy": {Proxy: Proxy{On: true}}} {
		t.Run(name, func(t *testing.T) {
			meta := metav1.ObjectMeta{
				Namespace: "default", Name: "web", Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "kept": "yes"},
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
			}
			api := fake.New(scheme.New(), &corev1.Service{ObjectMeta: meta}, &discoveryv1.EndpointSlice{ObjectMeta: meta})
			quiet := slog.New(slog.DiscardHandler)
			cfg.Shell = service.New(service.Config{Identity: "a", Logger: quiet, Registerer: prometheus.NewRegistry()}, service.Role{Name: "node-agent"})
			cfg.Shell.Use(api, listwatch.New(api, quiet))
			factory, err := (&Network{cfg: cfg}).informers()
			if err != nil {
				t.Fatal(err)
			}
			services, slices := informer.For[*corev1.Service](factory).Lister(), informer.For[*discoveryv1.EndpointSlice](factory).Lister()
			ctx, cancel := context.WithCancel(t.Context())
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() error { return factory.Run(ctx) })
			defer func() {
				cancel()
				if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}()
			if err := factory.WaitForCacheSync(ctx); err != nil {
				t.Fatal(err)
			}
			service, missing := services.Namespace("default").Get("web")
			slice, absent := slices.Namespace("default").Get("web")
			if err := errors.Join(missing, absent); err != nil {
				t.Fatal(err)
			}
			for _, object := range []informer.Object{service, slice} {
				if len(object.GetManagedFields()) > 0 {
					t.Errorf("a %T has managers", object)
				}
				if diff := cmp.Diff(map[string]string{"kept": "yes"}, object.GetAnnotations()); diff != "" {
					t.Errorf("annotations of a %T: %s", object, diff)
				}
			}
		})
	}
}
