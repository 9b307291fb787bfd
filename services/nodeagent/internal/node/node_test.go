package node_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/localvolume"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/nodeagent/internal/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// problem is the problem that a node reports.
type problem struct {
	mu  sync.Mutex
	err error
}

func (p *problem) set(err error) { p.mu.Lock(); defer p.mu.Unlock(); p.err = err }

func (p *problem) get(context.Context) error { p.mu.Lock(); defer p.mu.Unlock(); return p.err }

// run runs a node in a synctest bubble while test observes it.
func run(t *testing.T, objs []scheme.Object, test func(t *testing.T, api *fake.Client, p *problem)) {
	runFor(t, 0, objs, test)
}

// runFor is run with a node whose Lease holds for the given time.
func runFor(t *testing.T, lease time.Duration, objs []scheme.Object, test func(t *testing.T, api *fake.Client, p *problem)) {
	synctest.Test(t, func(t *testing.T) {
		api := fake.New(scheme.New(), append(objs, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease}})...)
		p := &problem{}
		n, err := node.New(node.Config{
			Name: "n1", Client: api, IP: "192.0.2.1", MaxPods: 110, LeaseDuration: lease, DataDir: t.TempDir(), Labels: map[string]string{"zone": "a"},
			Runtime: "containerd", RuntimeVersion: "1.6.20", Ready: p.get, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- n.Run(ctx) }()
		test(t, api, p)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func get(t *testing.T, api *fake.Client) *corev1.Node {
	t.Helper()
	n, err := client.Of[*corev1.Node](api).Get(t.Context(), "", "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func ready(n *corev1.Node) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c
		}
	}
	return corev1.NodeCondition{}
}

func leaseOf(t *testing.T, api *fake.Client) coordinationv1.LeaseSpec {
	t.Helper()
	l, err := client.Of[*coordinationv1.Lease](api).Get(t.Context(), corev1.NamespaceNodeLease, "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l.Spec
}

// TestLeaseDuration: a Lease that holds for a shorter time is renewed more often.
func TestLeaseDuration(t *testing.T) {
	runFor(t, 8*time.Second, nil, func(t *testing.T, api *fake.Client, _ *problem) {
		time.Sleep(time.Second)
		first := leaseOf(t, api)
		if *first.LeaseDurationSeconds != 8 {
			t.Errorf("the lease holds for %d s", *first.LeaseDurationSeconds)
		}
		time.Sleep(4 * time.Second)
		if renewed := leaseOf(t, api).RenewTime.Sub(first.RenewTime.Time); renewed != 4*time.Second {
			t.Errorf("after 4 s the lease was renewed for %v, want 4s", renewed)
		}
	})
}

func TestStatusAndLease(t *testing.T) {
	run(t, nil, func(t *testing.T, api *fake.Client, p *problem) {
		time.Sleep(time.Second)
		n := get(t, api)
		if n.Status.NodeInfo.ContainerRuntimeVersion != "containerd://1.6.20" || n.Status.NodeInfo.KubeletVersion != node.KubeletVersion ||
			n.Labels["kubernetes.io/hostname"] != "n1" || n.Labels["zone"] != "a" || n.Labels[node.LabelSimulated] != "" ||
			n.Status.Addresses[0].Address != "192.0.2.1" || n.Status.Capacity.Cpu().IsZero() || n.Status.Allocatable.Pods().Value() != 110 {
			t.Errorf("node: %+v", n)
		}
		lease := func() *coordinationv1.Lease {
			l, err := client.Of[*coordinationv1.Lease](api).Get(t.Context(), corev1.NamespaceNodeLease, "n1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		first := lease()
		if *first.Spec.LeaseDurationSeconds != 40 || *first.Spec.HolderIdentity != "n1" || first.OwnerReferences[0].UID != n.UID {
			t.Errorf("lease: %+v", first)
		}
		before := get(t, api).ResourceVersion
		time.Sleep(35 * time.Second)
		if renewed := lease().Spec.RenewTime.Sub(first.Spec.RenewTime.Time); renewed != 30*time.Second {
			t.Errorf("after 35 s the lease was renewed for %v, want 30s", renewed)
		}
		if get(t, api).ResourceVersion != before {
			t.Error("a status that did not change was written within five minutes")
		}
		time.Sleep(5 * time.Minute)
		if get(t, api).ResourceVersion == before {
			t.Error("the status was not written for more than five minutes")
		}
		p.set(errors.New("container runtime is down"))
		time.Sleep(11 * time.Second)
		if c := ready(get(t, api)); c.Status != corev1.ConditionFalse || c.Reason != "KubeletNotReady" || c.Message != "container runtime is down" {
			t.Errorf("condition: %+v", c)
		}
	})
}

func TestAnExistingNodeKeepsWhatIsNotOurs(t *testing.T) {
	existing := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"mine": "yes", "zone": "old"}},
		Spec:       corev1.NodeSpec{Unschedulable: true, PodCIDR: "10.1.0.0/24"},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: "Custom", Status: corev1.ConditionTrue}}},
	}
	run(t, []scheme.Object{existing}, func(t *testing.T, api *fake.Client, _ *problem) {
		time.Sleep(time.Second)
		n := get(t, api)
		if n.Labels["mine"] != "yes" || n.Labels["zone"] != "a" || !n.Spec.Unschedulable || n.Spec.PodCIDR == "" ||
			n.Status.Conditions[0].Type != "Custom" || ready(n).Status != corev1.ConditionTrue {
			t.Errorf("node: %+v", n)
		}
	})
}

func TestTheApiserverComesLate(t *testing.T) {
	run(t, nil, func(t *testing.T, api *fake.Client, _ *problem) {
		time.Sleep(time.Second)
		api.Fail(func(client.Call) error { return errors.New("connection refused") })
		time.Sleep(time.Minute)
		api.Fail(nil)
		time.Sleep(30 * time.Second)
		l, err := client.Of[*coordinationv1.Lease](api).Get(t.Context(), corev1.NamespaceNodeLease, "n1", metav1.GetOptions{})
		if err != nil || time.Since(l.Spec.RenewTime.Time) > 11*time.Second {
			t.Errorf("the lease is not renewed: %+v, %v", l, err)
		}
		// A deleted Node is registered again.
		api.Remove(get(t, api))
		time.Sleep(11 * time.Second)
		if n := get(t, api); ready(n).Status != corev1.ConditionTrue || !strings.HasPrefix(n.Status.NodeInfo.ContainerRuntimeVersion, "containerd") {
			t.Errorf("node: %+v", n)
		}
	})
}

// TestVolumesInUse: the Node publishes the folder of local volumes, and the status lists them as soon as
// somebody asks; what is unknown stays as it is.
func TestVolumesInUse(t *testing.T) {
	existing := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{"mine": "yes", localvolume.NodeAnnotation: "/old"}},
	}
	synctest.Test(t, func(t *testing.T) {
		for _, folder := range []string{"/var/lib/volumes", ""} {
			api := fake.New(scheme.New(), existing.DeepCopy())
			list, fault := []corev1.UniqueVolumeName{"a"}, error(nil)
			n, err := node.New(node.Config{
				Name: "n1", Client: api, IP: "192.0.2.1", MaxPods: 110, DataDir: t.TempDir(), Runtime: "containerd", RuntimeVersion: "1",
				Ready: func(context.Context) error { return nil }, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), LocalVolumes: folder,
				VolumesInUse: func() ([]corev1.UniqueVolumeName, error) { return list, fault },
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- n.Run(ctx) }()
			time.Sleep(time.Second)
			synctest.Wait()
			at := get(t, api)
			if got, has := at.Annotations[localvolume.NodeAnnotation]; got != folder || has != (folder != "") || at.Annotations["mine"] != "yes" {
				t.Errorf("the annotations are %v, want %q", at.Annotations, folder)
			}
			for _, step := range []struct {
				list  []corev1.UniqueVolumeName
				fault error
				want  []corev1.UniqueVolumeName
			}{
				{[]corev1.UniqueVolumeName{"a", "b"}, nil, []corev1.UniqueVolumeName{"a", "b"}},
				{nil, errors.New("the disk is gone"), []corev1.UniqueVolumeName{"a", "b"}},
				{[]corev1.UniqueVolumeName{"b"}, nil, []corev1.UniqueVolumeName{"b"}},
				{nil, nil, nil},
			} {
				list, fault = step.list, step.fault
				if err := n.Report(ctx); err != nil {
					t.Fatal(err)
				}
				if got := get(t, api).Status.VolumesInUse; !slices.Equal(got, step.want) {
					t.Errorf("the status lists %v, want %v", got, step.want)
				}
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestFurtherConditions: the status has what others add, loses what they take away, and keeps what is neither's.
func TestFurtherConditions(t *testing.T) { synctest.Test(t, testFurtherConditions) }

func testFurtherConditions(t *testing.T) {
	theirs := corev1.NodeCondition{Type: "example.com/Theirs", Status: corev1.ConditionTrue}
	old := corev1.NodeCondition{Type: "garboard.io/Old", Status: corev1.ConditionTrue}
	api := fake.New(scheme.New(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{theirs, old}}})
	n, err := node.New(node.Config{
		Name: "n1", Client: api, IP: "192.0.2.1", DataDir: t.TempDir(), Ready: func(context.Context) error { return nil },
		Conditions: func(present []corev1.NodeCondition) ([]corev1.NodeCondition, []corev1.NodeConditionType) {
			return []corev1.NodeCondition{{Type: "garboard.io/New", Status: corev1.ConditionFalse, Reason: "R", Message: "m"}},
				[]corev1.NodeConditionType{old.Type, "garboard.io/Never"}
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := n.Report(t.Context()); err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for _, c := range get(t, api).Status.Conditions {
			kinds = append(kinds, string(c.Type))
		}
		if !slices.Contains(kinds, "garboard.io/New") || slices.Contains(kinds, "garboard.io/Old") || !slices.Contains(kinds, "example.com/Theirs") || len(kinds) != 6 {
			t.Errorf("the conditions are %v", kinds)
		}
		time.Sleep(time.Minute)
	}
}

// TestDeletedNode: a Node that is deleted comes back without what others gave it, which the agent may not set.
func TestDeletedNode(t *testing.T) {
	run(t, nil, func(t *testing.T, api *fake.Client, _ *problem) {
		time.Sleep(time.Second)
		given := get(t, api)
		given.Spec.PodCIDR, given.Labels["theirs"] = "10.244.1.0/24", "x"
		api.Load(given)
		time.Sleep(node.CheckPeriod)
		api.Remove(given)
		time.Sleep(2 * node.CheckPeriod)
		if again := get(t, api); again.Spec.PodCIDR != "" || again.Labels["theirs"] != "" || again.Labels["zone"] != "a" {
			t.Errorf("it comes back with %+v, %v", again.Spec, again.Labels)
		}
	})
}
