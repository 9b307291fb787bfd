package serviceendpoints

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// someLabels returns labels of which many are shared; the last three keys are those of versions.
func someLabels(random *rand.Rand) map[string]string {
	keys := []string{"app", "example.com/tier", "zone", "pod-template-hash", "controller-revision-hash", "pod-template-generation"}
	labels := map[string]string{}
	for range random.IntN(4) {
		labels[keys[random.IntN(len(keys))]] = fmt.Sprint(random.IntN(2))
	}
	return labels
}

// TestIndices checks, for many labels and selectors, that the pods of a Service and the Services of a pod
// are those which a look at all of them finds.
func TestIndices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		p := controltest.New(t)
		var services []*corev1.Service
		for i := range 60 {
			svc := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("n", i%2), Name: fmt.Sprint("s", i)},
				Spec:       corev1.ServiceSpec{Selector: someLabels(random)},
			}
			services = append(services, svc)
			p.Load(svc)
		}
		var mu sync.Mutex
		asked := map[string]bool{}
		var pods informer.SharedInformer[*corev1.Pod]
		p.Declare(func(d controller.Deps) *controller.Spec {
			pods = informer.For[*corev1.Pod](d.Informers)
			all := controller.For[*corev1.Service](d)
			all.Handle = func(controller.Queue, *corev1.Service, *corev1.Service) {} // Only pods ask.
			return &controller.Spec{
				Name: "test", Resource: "services", For: all, Watches: Watches(pods, all),
				Reconcile: func(_ context.Context, key controller.Key) (reconcile.Result, error) {
					mu.Lock()
					defer mu.Unlock()
					asked[key.String()] = true
					return reconcile.Result{}, nil
				},
			}
		})
		p.Start()
		time.Sleep(time.Second)
		var made []*corev1.Pod
		for i := range 100 {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("n", i%2), Name: fmt.Sprint("p", i), Labels: someLabels(random)},
				Status:     corev1.PodStatus{PodIP: "10.0.0.1"},
			}
			made = append(made, pod)
			p.Load(pod)
		}
		time.Sleep(time.Second)
		for _, svc := range services {
			found, err := Pods(pods, svc)
			if err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for _, pod := range found {
				got = append(got, pod.Name)
			}
			for _, pod := range made {
				if pod.Namespace == svc.Namespace && Selects(svc, pod) {
					want = append(want, pod.Name)
				}
			}
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%v: got the pods %v, want %v", svc.Spec.Selector, got, want)
			}
		}
		for _, pod := range made {
			mu.Lock()
			clear(asked)
			mu.Unlock()
			labels := someLabels(random)
			changed := controltest.Change(p, pod.Namespace, pod.Name, func(pod *corev1.Pod) { pod.Labels = labels })
			time.Sleep(time.Second)
			mu.Lock()
			for _, svc := range services {
				want := pod.Namespace == svc.Namespace && Selects(svc, pod) != Selects(svc, changed)
				if got := asked[svc.Namespace+"/"+svc.Name]; got != want {
					t.Errorf("%v to %v: Service with %v is reconciled: %v, want %v", pod.Labels, labels, svc.Spec.Selector, got, want)
				}
			}
			mu.Unlock()
		}
		if text := strings.Join(pods.Indexer().ListIndexFuncValues(byLabel), " "); strings.Contains(text, "hash") {
			t.Errorf("pods are found by labels of versions: %s", text)
		}
	})
}
