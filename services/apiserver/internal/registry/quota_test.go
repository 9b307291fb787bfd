package registry_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	resourcequantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/quota"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// amounts parses "cpu", "1", "memory", "2Gi", ...
func amounts(list ...string) corev1.ResourceList {
	r := corev1.ResourceList{}
	for i := 0; i < len(list); i += 2 {
		r[corev1.ResourceName(list[i])] = resourcequantity.MustParse(list[i+1])
	}
	return r
}

// limit creates a quota that its controller has seen, with nothing used.
func limit(w *world, namespace, name string, hard corev1.ResourceList) {
	w.T.Helper()
	create(w, namespace, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: hard}})
	_, err := update(w, namespace, name, "status", func(q *corev1.ResourceQuota) {
		q.Status.Hard, q.Status.Used = hard, corev1.ResourceList{}
		for name := range hard {
			q.Status.Used[name] = resourcequantity.Quantity{}
		}
	})
	if err != nil {
		w.T.Fatalf("setting the status of quota %s: %v", name, err)
	}
}

// eventually polls until done.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for: %s", what)
		}
		<-tick.C
	}
}

func account(w *world, namespace string) {
	create(w, "", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	create(w, namespace, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
}

// tally returns what the objects of a namespace use, as the controller would count it.
func tally(w *world, q *corev1.ResourceQuota) corev1.ResourceList {
	w.T.Helper()
	sum := corev1.ResourceList{}
	for _, kind := range w.Table.Kinds() {
		if len(quota.Covered(kind, q.Status.Hard)) == 0 {
			continue
		}
		page, err := w.Store.List(w.T.Context(), kind, store.ListOptions{Namespace: q.Namespace})
		if err != nil {
			w.T.Fatal(err)
		}
		for _, obj := range page.Objects {
			if !quota.Matches(q, kind, obj) {
				continue
			}
			for name, value := range quota.Usage(kind, obj) {
				if quota.Covers(kind, name) {
					value.Add(sum[name])
					sum[name] = value
				}
			}
		}
	}
	return sum
}

// random returns an object of a random kind and size.
func random(i int) scheme.Object {
	meta := metav1.ObjectMeta{Name: fmt.Sprintf("o-%d", i)}
	if rand.IntN(2) == 0 {
		meta = metav1.ObjectMeta{GenerateName: "g-"}
	}
	switch rand.IntN(4) {
	case 0:
		return &corev1.ConfigMap{ObjectMeta: meta}
	case 1:
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s-%d", i)}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort}}
		for port := range 1 + rand.IntN(3) {
			service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", port), Port: int32(80 + port)})
		}
		return service
	}
	p := newPod("")
	p.ObjectMeta = meta
	if rand.IntN(4) > 0 {
		p.Spec.Containers[0].Resources.Requests = amounts("cpu", fmt.Sprintf("%dm", 50*(1+rand.IntN(10))), "memory", fmt.Sprintf("%dMi", 1+rand.IntN(64)))
	}
	return p
}

// TestQuotasAreNeverPassed has three apiservers create 1,000 random objects at once in three
// namespaces with quotas. No quota may be exceeded at any revision, and the recorded usage must
// match the existing objects.
func TestQuotasAreNeverPassed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	worlds := []*world{w, w.Another(), w.Another()}
	namespaces := []string{"a", "b", "c"}
	kind := scheme.For[*corev1.ResourceQuota](w.Table)
	for i, namespace := range namespaces {
		account(w, namespace)
		if i == 0 {
			limit(w, namespace, "compute", amounts("pods", "30", "count/configmaps", "25", "services.nodeports", "40", "requests.cpu", "5"))
			continue
		}
		limit(w, namespace, "objects", amounts("pods", fmt.Sprint(30+10*i), "count/configmaps", "25", "services.nodeports", "40"))
		limit(w, namespace, "compute", amounts("requests.cpu", "8", "requests.memory", "1Gi"))
		limit(w, namespace, "services", amounts("services", fmt.Sprint(10*i)))
	}
	for _, other := range worlds {
		eventually(t, "all apiservers know the quotas", func() bool {
			found := 0
			for _, obj := range other.Feeds.Of(kind).CachedIn(fabric.View{}) {
				if q, ok := obj.(*corev1.ResourceQuota); ok && len(q.Status.Used) > 0 {
					found++
				}
			}
			accounts := 0
			for _, obj := range other.Feeds.Of(scheme.For[*corev1.ServiceAccount](w.Table)).CachedIn(fabric.View{}) {
				if obj.GetNamespace() != metav1.NamespaceSystem {
					accounts++
				}
			}
			return found == 7 && accounts == 4
		})
	}
	start, err := w.Store.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	watching, stop := context.WithCancel(t.Context())
	defer stop()
	watcher, err := w.Feeds.Of(kind).Watch(watching, fabric.View{}, start)
	if err != nil {
		t.Fatal(err)
	}
	var watched sync.WaitGroup
	watched.Go(func() {
		for batch := range watcher.Events() {
			for _, event := range batch.Events {
				checkNotPassed(t, event.Object)
			}
		}
	})
	var next, allowed, refused atomic.Int64
	var workers sync.WaitGroup
	for range 32 {
		workers.Go(func() {
			for i := next.Add(1); i <= 1000; i = next.Add(1) {
				obj := random(int(i))
				other := worlds[rand.IntN(len(worlds))]
				var opts metav1.CreateOptions
				if i%20 == 0 {
					opts.DryRun = []string{metav1.DryRunAll} // A dry run must charge nothing.
				}
				_, err := other.Resource(w.Table.KindOf(obj)).Create(t.Context(), namespaces[rand.IntN(3)], obj, opts)
				switch {
				case err == nil:
					allowed.Add(1)
				case apierrors.IsForbidden(err) && (strings.Contains(err.Error(), "exceeded quota: ") || strings.Contains(err.Error(), "failed quota: compute: must specify ")):
					refused.Add(1)
				default:
					t.Errorf("creating a %T: %v", obj, err)
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%d were allowed, %d refused", allowed.Load(), refused.Load())
	if allowed.Load() < 150 || refused.Load() < 150 {
		t.Error("too few creates were allowed or refused: the test proves little")
	}
	watcher.Stop()
	stop()
	watched.Wait()
	for _, namespace := range namespaces {
		page, err := w.Store.List(t.Context(), kind, store.ListOptions{Namespace: namespace})
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range page.Objects {
			checkNotPassed(t, obj)
			q := obj.(*corev1.ResourceQuota)
			there := tally(w, q)
			for name, used := range q.Status.Used {
				// If several apiservers wrote the first quota, its charge for an object that
				// another quota then refused may stay until the controller counts again. The usage
				// is never too low.
				if value := there[name]; used.Cmp(value) < 0 || len(page.Objects) == 1 && used.Cmp(value) > 0 {
					t.Errorf("%s/%s says that %s of %s are used, but %s are", q.Namespace, q.Name, used.String(), name, value.String())
				}
				if value, hard := there[name], q.Status.Hard[name]; value.Cmp(hard) > 0 {
					t.Errorf("%s/%s allows %s of %s, but %s are used", q.Namespace, q.Name, hard.String(), name, value.String())
				}
			}
		}
	}
}

func checkNotPassed(t *testing.T, obj scheme.Object) {
	q, ok := obj.(*corev1.ResourceQuota)
	if !ok {
		return
	}
	for name, used := range q.Status.Used {
		if hard := q.Status.Hard[name]; used.Cmp(hard) > 0 {
			t.Errorf("at revision %s %s/%s has %s of %s used, of %s", q.ResourceVersion, q.Namespace, q.Name, used.String(), name, hard.String())
		}
	}
}
