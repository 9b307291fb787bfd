package syncloop_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/nodeagent/internal/admit"
	"github.com/garboard/garboard/services/nodeagent/internal/desired"
	"github.com/garboard/garboard/services/nodeagent/internal/podworkers"
	"github.com/garboard/garboard/services/nodeagent/internal/status"
	"github.com/garboard/garboard/services/nodeagent/internal/syncloop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a loop whose workers only record what they are told.
type world struct {
	health func() error
	hang   chan struct{} // the loop waits for its end when it asks whether it is ready; may be nil

	t         *testing.T
	changes   chan syncloop.Change
	lifecycle chan string
	probes    chan string
	pods      *desired.Store

	mu    sync.Mutex
	calls []string
	// due are the pods that are due, full that the node refuses every pod, and ready that every pod
	// is known.
	due         []*corev1.Pod
	full, ready bool
	// fresh is the node's newest version; the loop cannot read it while it is nil.
	fresh     *corev1.Node
	housekeep func(ctx context.Context) error
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, fmt.Sprintf(format, args...))
}

func (w *world) Update(pod *corev1.Pod, kind podworkers.Kind) { w.note("%v %s", kind, pod.UID) }
func (w *world) Kill(pod *corev1.Pod, _ podworkers.Kill)      { w.note("kill %s", pod.UID) }
func (w *world) Wake(uid string)                              { w.note("wake %s", uid) }
func (w *world) Terminating(string) bool                      { return false }

func (w *world) Due(time.Time) []*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	due := w.due
	w.due = nil
	return due
}

// did returns what the workers were told since the last time.
func (w *world) did() string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return strings.Join(calls, ", ")
}

// inWorld runs a test beside a running loop, in a bubble. The node has two CPUs.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, changes: make(chan syncloop.Change), lifecycle: make(chan string), probes: make(chan string), pods: desired.New(),
			housekeep: func(context.Context) error { return nil },
		}
		sysctls, err := admit.NewSysctls("6.1.0", nil)
		if err != nil {
			t.Fatal(err)
		}
		node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("10"),
		}}}
		loop := syncloop.New(syncloop.Config{
			Changes: w.changes, Lifecycle: w.lifecycle, Probes: w.probes, Pods: w.pods, Workers: w, Sysctls: sysctls,
			Ready: func() bool {
				w.mu.Lock()
				hang, ready := w.hang, w.ready
				w.mu.Unlock()
				if hang != nil {
					<-hang
				}
				return ready
			},
			Status: status.NewWriter(status.WriterConfig{Client: fake.New(scheme.New())}),
			Node:   func() *corev1.Node { return node },
			FetchNode: func(context.Context) (*corev1.Node, error) {
				w.note("fetch")
				if w.fresh == nil {
					return nil, errors.New("no apiserver")
				}
				return w.fresh, nil
			},
			Refuse: func() *admit.Rejection {
				if w.full {
					return &admit.Rejection{Reason: "NodeShutdown", Message: "bye"}
				}
				return nil
			},
			Reject: func(pod *corev1.Pod, reason, _ string) { w.note("reject %s %s", pod.UID, reason) },
			Housekeep: func(ctx context.Context) error {
				w.note("housekeep")
				return w.housekeep(ctx)
			},
			Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		})
		w.health = loop.Health
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- loop.Run(ctx) }()
		test(t, w)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the loop ended with %v", err)
		}
	})
}

// newPod returns a pod that requests CPUs; pods with a higher number are younger.
func newPod(number int, cpus string) *corev1.Pod {
	uid := fmt.Sprint("u", number)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: uid, UID: types.UID(uid), ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(time.Unix(int64(number), 0)),
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)},
		}}}},
	}
}

func changed(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.ResourceVersion += "1"
	change(pod)
	return pod
}

// TestChanges sends changes of pods to the loop.
func TestChanges(t *testing.T) {
	small, big := newPod(1, "1"), newPod(2, "3")
	second, third := newPod(3, "1"), newPod(4, "500m")
	started := func(pod *corev1.Pod) { pod.Status.StartTime = &metav1.Time{Time: time.Unix(9, 0)} }
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Status.Phase = phase }
	}
	type step struct {
		op   syncloop.Op
		pod  *corev1.Pod
		want string
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"a pod's life", []step{
			{syncloop.Add, small, "create u1"}, {syncloop.Update, small, "update u1"}, {syncloop.Delete, small, "update u1"},
			{syncloop.Reconcile, small, ""}, {syncloop.Remove, small, "kill u1"},
		}},
		{"a pod that does not fit", []step{
			{syncloop.Add, big, "reject u2 OutOfcpu"}, {syncloop.Update, big, ""}, {syncloop.Delete, big, ""},
			{syncloop.Reconcile, changed(big, phase(corev1.PodFailed)), ""}, {syncloop.Remove, big, ""},
			// It was forgotten: the same UID is judged anew.
			{syncloop.Add, big, "reject u2 OutOfcpu"},
		}},
		{"the node is full", []step{{syncloop.Add, small, "create u1"}, {syncloop.Add, second, "create u3"}, {syncloop.Add, third, "reject u4 OutOfcpu"}}},
		{"a rejected pod takes no room", []step{{syncloop.Add, big, "reject u2 OutOfcpu"}, {syncloop.Add, small, "create u1"}, {syncloop.Add, second, "create u3"}}},
		{"an ended pod takes no room", []step{
			{syncloop.Add, small, "create u1"}, {syncloop.Reconcile, changed(small, phase(corev1.PodSucceeded)), "sync u1"},
			{syncloop.Add, second, "create u3"}, {syncloop.Add, third, "create u4"},
		}},
		{"a removed pod takes no room", []step{
			{syncloop.Add, small, "create u1"}, {syncloop.Remove, small, "kill u1"}, {syncloop.Add, second, "create u3"}, {syncloop.Add, third, "create u4"},
		}},
		{"younger pods that have not begun take no room", []step{
			{syncloop.Add, third, "create u4"}, {syncloop.Add, second, "create u3"}, {syncloop.Add, small, "create u1"},
		}},
		{"a pod that an earlier agent took", []step{{syncloop.Add, changed(big, started), "create u2"}, {syncloop.Add, small, "reject u1 OutOfcpu"}}},
		{"a pod that has ended", []step{{syncloop.Add, changed(big, phase(corev1.PodFailed)), "create u2"}}},
		{"a pod that is being deleted", []step{
			{syncloop.Add, changed(big, func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(9, 0)} }), "create u2"},
		}},
		{"another writer sets a readiness gate", []step{
			{syncloop.Add, small, "create u1"},
			{syncloop.Reconcile, changed(small, func(pod *corev1.Pod) { pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "x"}} }), "sync u1"},
		}},
		{"a kernel parameter that is not safe", []step{{syncloop.Add, changed(small, func(pod *corev1.Pod) {
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}
		}), "reject u1 SysctlForbidden"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				for i, s := range c.steps {
					w.changes <- syncloop.Change{Op: s.op, Pod: s.pod}
					if got := w.did(); got != s.want {
						t.Errorf("step %d, %v %s: it did %q, want %q", i, s.op, s.pod.UID, got, s.want)
					}
					if wanted := w.pods.Get(string(s.pod.UID)) != nil; wanted == (s.op == syncloop.Remove) {
						t.Errorf("step %d, %v %s: the pod is wanted: %t", i, s.op, s.pod.UID, wanted)
					}
				}
			})
		})
	}
}

// TestNewestNode: labels and taints that the agent has not seen yet decide whether it takes a pod.
func TestNewestNode(t *testing.T) {
	selecting := changed(newPod(1, "1"), func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("10")}
	labeled := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"disk": "ssd"}}, Status: corev1.NodeStatus{Allocatable: resources},
	}
	tainted := labeled.DeepCopy()
	tainted.Spec.Taints = []corev1.Taint{{Key: "broken", Effect: corev1.TaintEffectNoExecute}}
	for name, c := range map[string]struct {
		pod   *corev1.Pod
		fresh *corev1.Node
		want  string
	}{
		"it fits the known one":      {newPod(1, "1"), nil, "create u1"},
		"it needs more than that":    {newPod(1, "3"), labeled, "reject u1 OutOfcpu"},
		"it fits the newest one":     {selecting, labeled, "fetch, create u1"},
		"it fits neither":            {selecting, &corev1.Node{Status: labeled.Status}, "fetch, reject u1 NodeAffinity"},
		"the newest one is tainted":  {selecting, tainted, "fetch, reject u1 TaintToleration"},
		"the newest one is not read": {selecting, nil, "fetch, reject u1 NodeAffinity"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.fresh = c.fresh
				w.changes <- syncloop.Change{Op: syncloop.Add, Pod: c.pod}
				if got := w.did(); got != c.want {
					t.Errorf("it did %q, want %q", got, c.want)
				}
			})
		})
	}
}

// TestShutdownRefuses: a node that shuts down takes no new pod, but keeps those that it has.
// TestHealth checks that a loop is healthy while it turns, and not while one of its turns hangs.
func TestHealth(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		time.Sleep(time.Hour)
		if err := w.health(); err != nil {
			t.Errorf("an idle loop: %v", err)
		}
		hang := make(chan struct{})
		w.mu.Lock()
		w.hang = hang
		w.mu.Unlock()
		time.Sleep(5 * time.Minute)
		err := w.health()
		close(hang)
		if err == nil || err.Error() != "sync Loop took longer than expected" {
			t.Errorf("a loop that hangs: %v", err)
		}
		synctest.Wait()
		if err := w.health(); err != nil {
			t.Errorf("a loop that turns again: %v", err)
		}
	})
}

func TestShutdownRefuses(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.full = true
		w.changes <- syncloop.Change{Op: syncloop.Add, Pod: newPod(1, "1")}
		w.changes <- syncloop.Change{Op: syncloop.Add, Pod: changed(newPod(2, "1"), func(pod *corev1.Pod) {
			pod.Status.StartTime = &metav1.Time{Time: time.Unix(9, 0)}
		})}
		if got := w.did(); got != "reject u1 NodeShutdown, create u2" {
			t.Errorf("it did %q", got)
		}
	})
}

// TestWakes: changes in the runtime, probe results and time wake a pod's worker.
func TestWakes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.lifecycle <- "u1"
		w.probes <- "u2"
		if got := w.did(); got != "wake u1, wake u2" {
			t.Errorf("it did %q", got)
		}
		w.mu.Lock()
		w.due = []*corev1.Pod{newPod(3, "1"), newPod(4, "1")}
		w.mu.Unlock()
		if got := w.did(); got != "" {
			t.Errorf("it did %q at once", got)
		}
		<-time.After(time.Second)
		if got := w.did(); got != "wake u3, wake u4" {
			t.Errorf("after a second it did %q", got)
		}
	})
}

// TestHousekeeping: it begins when all pods are known, never overlaps itself, does not block the
// loop, survives an error, and has ended when Run returns.
func TestHousekeeping(t *testing.T) {
	ended := false
	inWorld(t, func(t *testing.T, w *world) {
		<-time.After(time.Minute)
		if got := w.did(); got != "" {
			t.Errorf("before all pods are known it did %q", got)
		}
		release := make(chan error)
		w.housekeep = func(context.Context) error { return <-release }
		w.mu.Lock()
		w.ready = true
		w.mu.Unlock()
		<-time.After(time.Minute)
		w.lifecycle <- "u1"
		if got := w.did(); got != "housekeep, wake u1" {
			t.Errorf("while it cleans up, it did %q", got)
		}
		release <- errors.New("the runtime is away")
		<-time.After(3 * time.Second)
		if got := w.did(); got != "housekeep" {
			t.Errorf("after a failure it did %q", got)
		}
		w.housekeep = func(ctx context.Context) error {
			<-ctx.Done()
			<-time.After(time.Second)
			ended = true
			return ctx.Err()
		}
		release <- nil
		<-time.After(3 * time.Second)
	})
	if !ended {
		t.Error("the loop ended before its housekeeping")
	}
}

// TestHandler turns the events of an informer into changes.
func TestHandler(t *testing.T) {
	pod := newPod(1, "1")
	again := changed(newPod(1, "1"), func(pod *corev1.Pod) { pod.UID = "u9" })
	deleted := func(grace int64) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(9, 0)}, &grace
		}
	}
	for _, c := range []struct {
		name     string
		old, new *corev1.Pod
		want     string
	}{
		{"a new pod", nil, pod, "ADD u1"},
		{"a pod that is gone", pod, nil, "REMOVE u1"},
		{"nothing", pod, pod, ""},
		{"its spec", pod, changed(pod, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "i" }), "UPDATE u1"},
		{"its labels", pod, changed(pod, func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }), "UPDATE u1"},
		{"its annotations", pod, changed(pod, func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }), "UPDATE u1"},
		{"its status", pod, changed(pod, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }), "RECONCILE u1"},
		{"its deletion", pod, changed(pod, deleted(30)), "DELETE u1"},
		{"a shorter grace period", changed(pod, deleted(30)), changed(changed(pod, deleted(5)), func(*corev1.Pod) {}), "DELETE u1"},
		{"its status while it ends", changed(pod, deleted(30)), changed(changed(pod, deleted(30)), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), "RECONCILE u1"},
		{"another pod of the same name", pod, again, "REMOVE u1, ADD u9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			changes := make(chan syncloop.Change, 2)
			handler := syncloop.Handler(t.Context(), changes)
			switch {
			case c.old == nil:
				handler.OnAdd(c.new, true)
			case c.new == nil:
				handler.OnDelete(informer.DeletedObject[*corev1.Pod]{OptionalObj: c.old})
			default:
				handler.OnUpdate(c.old, c.new)
			}
			close(changes)
			var got []string
			for change := range changes {
				got = append(got, fmt.Sprint(change.Op, " ", change.Pod.UID))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}

// TestHandlerEnds: when the loop has ended, a handler does not block its informer.
func TestHandlerEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	handler := syncloop.Handler(ctx, make(chan syncloop.Change))
	handler.OnAdd(newPod(1, "1"), false)
	handler.OnDelete(informer.DeletedObject[*corev1.Pod]{}) // Nothing is known of the deleted pod.
}
