package registry_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/autoscaling/scale"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/binding"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/eviction"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// thief observes the transactions of writes, and takes the lease away right before one of them.
type thief struct {
	steal func()

	mu     sync.Mutex
	at     int // before which transaction; 0 for none
	seen   int
	fenced []bool // for each transaction since the theft
}

func (th *thief) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	text := ""
	if strings.HasSuffix(method, "/Txn") {
		text = strings.Join(strings.Fields(fmt.Sprint(req)), " ")
	}
	// A feed that begins anew asks for etcd's history by a transaction, which is not below /registry.
	success := text[:max(0, strings.Index(text, "failure:"))]
	if strings.Contains(success, `request_put:{key:"/registry/`) || strings.Contains(success, `request_delete_range:{key:"/registry/`) {
		th.mu.Lock()
		th.seen++
		if th.seen == th.at {
			th.steal()
		}
		if th.at > 0 && th.seen >= th.at {
			th.fenced = append(th.fenced, strings.Contains(text, `"/registry/leases/shards/shard-7"`))
		}
		th.mu.Unlock()
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (th *thief) begin(at int) {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.at, th.seen, th.fenced = at, 0, nil
}

// end returns what was observed. Nothing is stolen any more.
func (th *thief) end() (seen int, fenced []bool) {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.at = 0
	return th.seen, th.fenced
}

// watched returns another registry on w's etcd, whose transactions a thief observes.
func watched(w *world, th *thief) *world {
	return w.Another(func(c *registrytest.Config) {
		c.Dial = []grpc.DialOption{grpc.WithChainUnaryInterceptor(th.intercept)}
	})
}

// operation is one request that writes; prepare creates what it needs, by name.
type operation struct {
	prepare func(w *world, name string)
	do      func(ctx context.Context, w *world, name string) error
}

func operations() map[string]operation {
	nothing := func(*world, string) {}
	pod := func(w *world, name string) { create(w, "default", newPod(name)) }
	change := func(ctx context.Context, r *registry.Resource, name, subresource string, how func(scheme.Object)) error {
		_, err := r.Update(ctx, "default", name, func(current scheme.Object) (scheme.Object, error) {
			how(current)
			return current, nil
		}, registry.UpdateOptions{Subresource: subresource})
		return err
	}
	remove := func(ctx context.Context, r *registry.Resource, name string) error {
		_, _, err := r.Delete(ctx, "default", name, metav1.DeleteOptions{})
		return err
	}
	deployment := func(w *world, name string) {
		create(w, "default", &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: newPod("").Spec},
		}})
	}
	return map[string]operation{
		"creating a pod under a quota": {nothing, func(ctx context.Context, w *world, name string) error {
			_, err := resource[*corev1.Pod](w).Create(ctx, "default", newPod(name), metav1.CreateOptions{})
			return err
		}},
		"creating by a prefix": {nothing, func(ctx context.Context, w *world, name string) error {
			pod := newPod("")
			pod.GenerateName = name
			_, err := resource[*corev1.Pod](w).Create(ctx, "default", pod, metav1.CreateOptions{})
			return err
		}},
		"creating a service with addresses": {nothing, func(ctx context.Context, w *world, name string) error {
			_, err := resource[*corev1.Service](w).Create(ctx, "default", newService(name, func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }), metav1.CreateOptions{})
			return err
		}},
		"updating": {pod, func(ctx context.Context, w *world, name string) error {
			return change(ctx, resource[*corev1.Pod](w), name, "", func(o scheme.Object) { o.SetLabels(map[string]string{"x": "y"}) })
		}},
		"status": {pod, func(ctx context.Context, w *world, name string) error {
			return change(ctx, resource[*corev1.Pod](w), name, "status", func(o scheme.Object) { o.(*corev1.Pod).Status.Reason = "Fenced" })
		}},
		"scale": {deployment, func(ctx context.Context, w *world, name string) error {
			_, err := scale.Update(ctx, resource[*appsv1.Deployment](w), "default", name, func(s *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
				s.Spec.Replicas += 3
				return s, nil
			}, registry.UpdateOptions{})
			return err
		}},
		"binding": {pod, func(ctx context.Context, w *world, name string) error {
			_, err := binding.Bind(ctx, resource[*corev1.Pod](w), "default", name, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}, metav1.CreateOptions{})
			return err
		}},
		"evicting a pod that starts": {pod, func(ctx context.Context, w *world, name string) error {
			return eviction.Evict(ctx, w.Registry, "default", name, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		}},
		"evicting": {func(w *world, name string) { registrytest.RunningPod(w, name, corev1.ConditionTrue) }, func(ctx context.Context, w *world, name string) error {
			return eviction.Evict(ctx, w.Registry, "default", name, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		}},
		"deleting": {pod, func(ctx context.Context, w *world, name string) error {
			return remove(ctx, resource[*corev1.Pod](w), name)
		}},
		"deleting a service with addresses": {func(w *world, name string) { create(w, "default", newService(name)) }, func(ctx context.Context, w *world, name string) error {
			return remove(ctx, resource[*corev1.Service](w), name)
		}},
		"taking the last finalizer": {func(w *world, name string) {
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"example.com/f"}}}
			create(w, "default", m)
			if err := remove(w.T.Context(), resource[*corev1.ConfigMap](w), name); err != nil {
				w.T.Fatal(err)
			}
		}, func(ctx context.Context, w *world, name string) error {
			return change(ctx, resource[*corev1.ConfigMap](w), name, "", func(o scheme.Object) { o.SetFinalizers(nil) })
		}},
		"deleting a collection": {func(w *world, name string) {
			for i := range 3 {
				create(w, "default", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(name, i), Labels: map[string]string{"of": name}}})
			}
		}, func(ctx context.Context, w *world, name string) error {
			_, err := resource[*corev1.ConfigMap](w).DeleteCollection(ctx, "default", metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "of=" + name})
			return err
		}},
	}
}

// TestLeaseIsLostBeforeEachTransaction makes every request that writes, each time losing the lease
// right before a different transaction. The first fenced transaction after that must be the last,
// the request must be refused, and what it had allocated must be released.
func TestLeaseIsLostBeforeEachTransaction(t *testing.T) {
	t.Parallel()
	th := &thief{}
	w := newWorld(t)
	hooked := watched(w, th)
	limit(w, "default", "q", amounts("pods", "1000"))
	registrytest.CreateBudget(w, "b", policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1000, CurrentHealthy: 1000, ExpectedPods: 1000, ObservedGeneration: 1}, func(s *policyv1.PodDisruptionBudgetSpec) {
		s.MinAvailable = &intstr.IntOrString{IntVal: 0}
	})
	one, two := "one", "two"
	transitions := int32(0)
	create(w, "", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shards"}})
	lease := create(w, "shards", &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "shard-7"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &one, LeaseTransitions: &transitions},
	})
	ctx := fence.With(t.Context(), fence.Of(lease), nil)
	give := func(to *string) {
		if _, err := update(w, "shards", "shard-7", "", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = to }); err != nil {
			t.Errorf("giving the lease to %s: %v", *to, err)
		}
	}
	th.steal = func() { give(&two) }
	all, number := operations(), 0
	for _, what := range slices.Sorted(maps.Keys(all)) {
		op := all[what]
		run := func(at int) (seen int, fenced []bool, err error) {
			number++
			name := fmt.Sprint("o", number)
			op.prepare(w, name)
			// Wait until both registries know all existing objects.
			if err := hooked.Feeds.Of(scheme.For[*corev1.Pod](w.Table)).WaitFor(t.Context(), must(w.Store.Revision(t.Context()))); err != nil {
				t.Fatal(err)
			}
			before := get[*corev1.ResourceQuota](w, "default", "q").Status.Used
			th.begin(at)
			err = op.do(ctx, hooked, name)
			seen, fenced = th.end()
			if after := get[*corev1.ResourceQuota](w, "default", "q").Status.Used; err != nil && !equality.Semantic.DeepEqual(before, after) {
				t.Errorf("%s was refused, and the quota says that %v is used; before it was %v", what, after, before)
			}
			return seen, fenced, err
		}
		transactions, _, err := run(0)
		if err != nil || transactions == 0 {
			t.Errorf("%s, by the leader: %v after %d transactions", what, err, transactions)
			continue
		}
		for at := 1; at <= transactions; at++ {
			_, fenced, err := run(at)
			refused := fence.IsLost(err) && apierrors.IsConflict(err)
			if wanted := slices.Contains(fenced, true); refused != wanted {
				t.Errorf("%s, the lease being lost before transaction %d of %d: %v; those after it are fenced: %v", what, at, transactions, err, fenced)
			}
			if n := len(slices.DeleteFunc(slices.Clone(fenced), func(f bool) bool { return !f })); n > 1 {
				t.Errorf("%s, the lease being lost before transaction %d of %d: %d were tried in vain", what, at, transactions, n)
			}
			give(&one)
		}
	}
	held := 0
	page, err := w.Store.List(t.Context(), scheme.For[*corev1.Service](w.Table), store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range page.Objects {
		held += len(obj.(*corev1.Service).Spec.ClusterIPs)
	}
	if taken := len(w.Etcd.Values(t, "/registry/ipaddresses/")); taken != held {
		t.Errorf("%d addresses are taken, of which services have %d", taken, held)
	}
}

func must(revision int64, err error) int64 {
	if err != nil {
		panic(err)
	}
	return revision
}
