package scheduler

import (
	"context"

	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestConfig(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		want []string
	}{
		{"nothing", Config{}, []string{"no apiserver address is set", "no NATS server address is set"}},
		{"two faults", Config{SchedulerName: "Not A Name"}, []string{"no apiserver address is set", `the scheduler name "Not A Name" is not valid`}},
		{"enough", config(""), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(tt.cfg)
			if (err != nil) != (tt.want != nil) {
				t.Fatalf("New returned %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got error %q, want it to contain %q", err, want)
				}
			}
		})
	}
}

// config returns a configuration that suffices.
func config(identity string) Config {
	return Config{Service: service.Config{
		API: &rest.Config{Host: "https://in.memory"}, Bus: bus.Config{URLs: []string{"nats://127.0.0.1:4222"}}, Identity: identity, Logger: quiet(),
	}}
}

// replica runs one replica on an API in memory until the returned function is called.
func replica(t *testing.T, api *fake.Client, identity string) (end func()) {
	t.Helper()
	s, err := New(config(identity))
	if err != nil {
		t.Fatal(err)
	}
	s.shell.Use(api, listwatch.New(api, quiet()))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	end = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(end)
	return end
}

// TestReplicas checks that one of two replicas schedules, and that the other takes over when it
// ends.
func TestReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fake.New(scheme.New(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "a"},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourcePods: resource.MustParse("10"),
			}},
		})
		end := replica(t, api, "one")
		synctest.Wait()
		replica(t, api, "two")
		bound := func(name string) {
			t.Helper()
			pods := client.Of[*corev1.Pod](api)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
			pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
			if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			got, err := pods.Get(t.Context(), "default", name, metav1.GetOptions{})
			if err != nil || got.Spec.NodeName != "a" {
				t.Errorf("%s: got node %q, %v", name, got.Spec.NodeName, err)
			}
		}
		leader := func() string {
			t.Helper()
			lease, err := client.Of[*coordinationv1.Lease](api).Get(t.Context(), "kube-system", "kube-scheduler", metav1.GetOptions{})
			if err != nil || lease.Spec.HolderIdentity == nil {
				t.Fatalf("got Lease %+v, %v", lease, err)
			}
			return *lease.Spec.HolderIdentity
		}
		bound("first")
		if leader() != "one" {
			t.Errorf("got leader %s", leader())
		}
		end()
		time.Sleep(10 * time.Second)
		bound("second")
		if leader() != "two" {
			t.Errorf("got leader %s", leader())
		}
		// The Events are in the API.
		events, _, err := client.Of[*corev1.Event](api).List(t.Context(), "default", metav1.ListOptions{})
		if err != nil || len(events) != 2 || events[0].Source.Component != "default-scheduler" || events[0].Reason != "Scheduled" {
			t.Errorf("got events %+v, %v", events, err)
		}
	})
}
