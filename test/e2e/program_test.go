package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"

	"github.com/garboard/garboard/test/e2e/plane"
)

// TestProgram runs a client-go program as a service account with few rights: two candidates for one
// lease, informers in the leader, and Events about what it saw.
func TestProgram(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated")
	config := restricted(t, p)
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string][]string{} // by candidate

	run := func(identity string) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Namespace: "operated", Name: "program"}, Client: clients.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
			},
			LeaseDuration: time.Minute, RenewDeadline: 50 * time.Second, RetryPeriod: 200 * time.Millisecond, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					program(ctx, t, clients, func(name string) {
						mu.Lock()
						defer mu.Unlock()
						seen[identity] = append(seen[identity], name)
					})
				},
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			elector.Run(ctx)
		}()
		return func() {
			cancel()
			<-done
		}
	}
	saw := func(identity, name string) {
		t.Helper()
		plane.Eventually(t, identity+" to see "+name, func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(seen[identity], name) {
				return fmt.Errorf("the candidates saw %v", seen)
			}
			return nil
		})
	}

	stopFirst := run("first")
	p.Must(t, "", "create", "configmap", "one", "-n", "operated")
	saw("first", "one")
	stopSecond := run("second")
	defer stopSecond()
	p.Must(t, "", "create", "configmap", "two", "-n", "operated")
	saw("first", "two")
	mu.Lock()
	if len(seen["second"]) > 0 {
		t.Errorf("got two leaders at once: %v", seen)
	}
	mu.Unlock()
	stopFirst()
	saw("second", "two")

	plane.Eventually(t, "the program's Events", func(ctx context.Context) error {
		found, err := kubernetesEvents(ctx, p, t)
		if err != nil {
			return err
		}
		if !slices.Contains(found, "Seen one") {
			return fmt.Errorf("only %v", found)
		}
		return nil
	})
	if _, err := clients.CoreV1().Pods("operated").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing a resource outside the role: %v, want forbidden", err)
	}
	if _, err := clients.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing all namespaces: %v, want forbidden", err)
	}
}

// program watches config maps until ctx ends. It calls saw and writes an Event for each one that it
// sees.
func program(ctx context.Context, t *testing.T, clients kubernetes.Interface, saw func(name string)) {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: clients.CoreV1().Events("operated")})
	recorder := broadcaster.NewRecorder(clientgoscheme.Scheme, corev1.EventSource{Component: "program"})
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace("operated"))
	_, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if object, ok := obj.(*corev1.ConfigMap); ok {
				saw(object.Name)
				recorder.Eventf(object, corev1.EventTypeNormal, "Seen", "Seen %s", object.Name)
			}
		},
	})
	if err != nil {
		t.Error(err)
		return
	}
	factory.StartWithContext(ctx)
	<-ctx.Done()
	factory.Shutdown()
}

// kubernetesEvents returns the messages of the Events in the namespace, as an administrator reads
// them.
func kubernetesEvents(_ context.Context, p *plane.Plane, t *testing.T) ([]string, error) {
	res := p.Kubectl(t, "", "get", "events", "-n", "operated", "-o", `go-template={{range .items}}{{.message}}{{"\n"}}{{end}}`)
	if res.Code != 0 {
		return nil, errors.New(res.Stderr)
	}
	return strings.Split(res.Stdout, "\n"), nil
}
