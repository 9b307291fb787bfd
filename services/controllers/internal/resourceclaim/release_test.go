package resourceclaim

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// state is what a claim is like in the end.
type state struct {
	exists, allocated, protected bool
	reserved                     int
}

func stateOf(p *controltest.Plane) (s state) {
	for _, c := range claims(p) {
		if c.Name == "c" {
			s = state{true, c.Status.Allocation != nil, len(c.Finalizers) > 0, len(c.Status.ReservedFor)}
		}
	}
	return s
}

func wantState(t *testing.T, p *controltest.Plane, want state) {
	t.Helper()
	settle()
	if got := stateOf(p); got != want {
		t.Errorf("the claim is %+v, want %+v", got, want)
	}
}

// TestWhatIsLeftBehind checks what becomes of a claim that is reserved for pods in some state.
func TestWhatIsLeftBehind(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := aPod(fromClaim("gpu", "c"))
		p.Spec.NodeName = "n"
		change(p)
		return p
	}
	phase := func(phase corev1.PodPhase) *corev1.Pod {
		return pod(func(p *corev1.Pod) { p.Status.Phase = phase })
	}
	deleted := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/stay"}
	}
	deletedClaim := func(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
		c.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		return c
	}
	foreign := func(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{
			APIGroup: "example.com", Resource: "foos", Name: "foo", UID: "123",
		}, resourcev1.ResourceClaimConsumerReference{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "group", UID: "group"})
		return c
	}
	bare := aClaim("c", "web-uid")
	bare.Finalizers = nil
	for name, tt := range map[string]struct {
		claim *resourcev1.ResourceClaim
		pod   *corev1.Pod
		want  state
	}{
		"the pod runs":                        {aClaim("c", "web-uid"), phase(corev1.PodRunning), state{true, true, true, 1}},
		"the pod is gone":                     {aClaim("c", "web-uid"), nil, state{true, false, false, 0}},
		"the pod was replaced":                {aClaim("c", "web-uid"), pod(func(p *corev1.Pod) { p.UID, p.Spec.NodeName = "new", "" }), state{true, false, false, 0}},
		"the pod has succeeded":               {aClaim("c", "web-uid"), phase(corev1.PodSucceeded), state{true, false, false, 0}},
		"the pod has failed":                  {aClaim("c", "web-uid"), phase(corev1.PodFailed), state{true, false, false, 0}},
		"the pod ends on its node":            {aClaim("c", "web-uid"), pod(deleted), state{true, true, true, 1}},
		"the pod ends without a node":         {aClaim("c", "web-uid"), pod(func(p *corev1.Pod) { deleted(p); p.Spec.NodeName = "" }), state{true, false, false, 0}},
		"one of two pods is gone":             {aClaim("c", "web-uid", "other-uid"), phase(corev1.PodRunning), state{true, true, true, 1}},
		"others have reserved it":             {foreign(aClaim("c", "web-uid")), nil, state{true, true, true, 2}},
		"nobody has reserved it":              {aClaim("c"), nil, state{true, true, true, 0}},
		"it is not protected":                 {bare, nil, state{true, true, false, 0}},
		"it is being deleted, the pod is not": {deletedClaim(aClaim("c", "web-uid")), phase(corev1.PodRunning), state{true, true, true, 1}},
		"it is being deleted with the pod":    {deletedClaim(aClaim("c", "web-uid")), nil, state{}},
		"it is being deleted, unused":         {deletedClaim(aClaim("c")), nil, state{}},
		"it was made for a pod that runs":     {owned(aClaim("c", "web-uid"), "gpu"), phase(corev1.PodRunning), state{true, true, true, 1}},
		"it was made for a pod that ended":    {owned(aClaim("c", "web-uid"), "gpu"), phase(corev1.PodSucceeded), state{}},
		"it was made for a pod that is gone":  {owned(aClaim("c", "web-uid"), "gpu"), nil, state{true, false, false, 0}}, // The garbage collector's.
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := controltest.New(t)
				if tt.pod != nil {
					p.Load(tt.pod)
				}
				run(t, p)
				settle()
				p.Load(tt.claim)
				wantState(t, p, tt.want)
			})
		})
	}
}

// TestThePodEnds checks that the end of a pod is noticed, also one whose claim is for an extended resource.
func TestThePodEnds(t *testing.T) {
	extended := aPod()
	extended.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "c"}
	for name, tt := range map[string]struct {
		pod    *corev1.Pod
		change func(p *controltest.Plane)
		want   state
	}{
		"it is deleted": {aPod(fromClaim("gpu", "c")), func(p *controltest.Plane) {
			p.Remove(controltest.Get[*corev1.Pod](p, "default", "web"))
		}, state{true, false, false, 0}},
		"it has succeeded": {aPod(fromClaim("gpu", "c")), func(p *controltest.Plane) {
			controltest.SetStatus(p, "default", "web", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
		}, state{true, false, false, 0}},
		"it was replaced": {aPod(fromClaim("gpu", "c")), func(p *controltest.Plane) {
			p.Remove(controltest.Get[*corev1.Pod](p, "default", "web"))
			next := aPod(fromClaim("gpu", "c"))
			next.UID = "next"
			p.Load(next)
		}, state{true, false, false, 0}},
		"it had an extended resource": {extended, func(p *controltest.Plane) {
			controltest.SetStatus(p, "default", "web", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })
		}, state{true, false, false, 0}},
		"it becomes ready": {aPod(fromClaim("gpu", "c")), func(p *controltest.Plane) {
			controltest.MarkReady(p, "default", "web", true)
		}, state{true, true, true, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := controltest.New(t, tt.pod)
				run(t, p)
				settle()
				p.Load(aClaim("c", "web-uid"))
				wantState(t, p, state{true, true, true, 1})
				tt.change(p)
				wantState(t, p, tt.want)
			})
		})
	}
}

// TestALatePodKeepsItsClaim checks that a pod that the cache does not know yet is looked for.
func TestALatePodKeepsItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "Pod", time.Minute)
		run(t, p)
		time.Sleep(2 * time.Minute)
		p.Load(aPod(fromClaim("gpu", "c")))
		p.Load(aClaim("c", "web-uid"))
		wantState(t, p, state{true, true, true, 1})
	})
}
