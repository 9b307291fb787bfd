package statefulset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
	"github.com/garboard/garboard/services/controllers/internal/history"
)

// TestAdoption checks that a set takes pods with the names of its own, and no others.
func TestAdoption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		for _, name := range []string{"web-0", "web-07", "web", "other-0", "web-99999999999"} {
			p.Load(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Image: "orphan"}}}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
			})
		}
		p.Start()
		s := controltest.Create(p, set(1))
		settle()
		for _, pod := range controltest.List[*corev1.Pod](p) {
			if metav1.IsControlledBy(pod, s) != (pod.Name == "web-0") {
				t.Errorf("%s has owners %v", pod.Name, pod.OwnerReferences)
			}
		}
		ready(p, 0, true)
		settle()
		if got := controltest.Get[*corev1.Pod](p, "default", "web-0").Labels["statefulset.kubernetes.io/pod-name"]; got != "web-0" {
			t.Errorf("the adopted pod calls itself %q", got)
		}
		controltest.Change(p, "default", "web-0", func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "gone"} })
		settle()
		if pod := controltest.Get[*corev1.Pod](p, "default", "web-0"); len(pod.OwnerReferences) > 0 {
			t.Errorf("the pod that is no longer selected has owners %v", pod.OwnerReferences)
		}
	})
}

// TestPodsKeepTheirIdentity checks that a label that somebody removed comes back, and that the pod keeps what the cache
// does not have.
func TestPodsKeepTheirIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Add(p.RunPods)
		p.Start()
		controltest.Create(p, set(1))
		settle()
		controltest.Change(p, "default", "web-0", func(pod *corev1.Pod) { delete(pod.Labels, "statefulset.kubernetes.io/pod-name") })
		settle()
		if got := controltest.Get[*corev1.Pod](p, "default", "web-0").Labels["statefulset.kubernetes.io/pod-name"]; got != "web-0" {
			t.Errorf("the label is %q", got)
		}
		if got := controltest.Get[*corev1.Pod](p, "default", "web-0").Spec.Containers[0].Image; got != "v1" {
			t.Errorf("the image is %q", got)
		}
		if got := p.Events("SuccessfulUpdate"); len(got) != 1 || got[0] != "Update Pod web-0 in StatefulSet web successful" {
			t.Errorf("got Events %q", got)
		}
	})
}

// TestHistory checks the limit of revisions, that one of another encoding counts, and the adoption of an
// orphan.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Add(p.RunPods)
		s := set(1, func(s *appsv1.StatefulSet) { *s.Spec.RevisionHistoryLimit = 2 })
		patch, err := history.Patch(&s.Spec.Template)
		if err != nil {
			t.Fatal(err)
		}
		older := strings.Replace(string(patch), `"metadata":{`, `"metadata":{"creationTimestamp":null,`, 1)
		p.Load(&appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-older", Labels: map[string]string{"app": "web"}},
			Data:       runtime.RawExtension{Raw: []byte(older)}, Revision: 7,
		})
		p.Start()
		created := controltest.Create(p, s)
		settle()
		if got := status(p); got.UpdateRevision != "web-older" {
			t.Errorf("got status %+v, want the revision that there was", got)
		}
		if revision := controltest.Get[*appsv1.ControllerRevision](p, "default", "web-older"); !metav1.IsControlledBy(revision, created) {
			t.Errorf("the revision has owners %v", revision.OwnerReferences)
		}
		for i := range 5 {
			image(p, fmt.Sprintf("v%d", i+2))
			settle()
		}
		numbers := map[int64]bool{}
		for _, revision := range controltest.List[*appsv1.ControllerRevision](p) {
			numbers[revision.Revision] = true
		}
		if fmt.Sprint(numbers) != "map[10:true 11:true 12:true]" {
			t.Errorf("the revisions %v are left, want the current and 2 more", numbers)
		}
	})
}

// TestQuietRevisions checks that a change of a revision asks for no reconcile of its set, as in Kubernetes, and that
// the next reconcile restores what is missing.
func TestQuietRevisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Start()
		controltest.Create(p, set(0))
		settle()
		revisions := controltest.List[*appsv1.ControllerRevision](p)
		if len(revisions) != 1 {
			t.Fatalf("got %d revisions, want 1", len(revisions))
		}
		p.Remove(revisions[0])
		settle()
		if n := len(controltest.List[*appsv1.ControllerRevision](p)); n != 0 {
			t.Errorf("got %d revisions, want none before the next reconcile", n)
		}
		scale(p, 1)
		settle()
		if got := controltest.List[*appsv1.ControllerRevision](p); len(got) != 1 || got[0].Name != revisions[0].Name {
			t.Errorf("got revisions %v, want %s again", got, revisions[0].Name)
		}
	})
}

// TestCollision checks that a revision whose name is taken gets another, and that this is counted.
func TestCollision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		s := set(1)
		patch, err := history.Patch(&s.Spec.Template)
		if err != nil {
			t.Fatal(err)
		}
		taken := history.Of(s, metav1.OwnerReference{}, nil, patch, 1, 0)
		taken.OwnerReferences, taken.Data.Raw = nil, []byte(`{"spec":{}}`)
		p.Load(taken)
		p.Start()
		controltest.Create(p, s)
		settle()
		if got := status(p); *got.CollisionCount != 1 || got.UpdateRevision == taken.Name || got.UpdateRevision == "" {
			t.Errorf("got status %+v", got)
		}
	})
}

// TestADeletedSetOnlyCounts checks that a set that is being deleted makes nothing.
func TestADeletedSetOnlyCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		s := set(3)
		s.DeletionTimestamp, s.Finalizers = new(metav1.Now()), []string{"orphan"}
		p.Load(s)
		p.Start()
		expect(t, p, "deleted", "")
		if n := len(controltest.List[*appsv1.ControllerRevision](p)); n != 0 {
			t.Errorf("%d revisions were made", n)
		}
	})
}

// TestBillionsOfReplicas checks that an absurd set takes neither time nor memory beyond the pods that it
// may have.
func TestBillionsOfReplicas(t *testing.T) {
	for _, policy := range []func(*appsv1.StatefulSet){parallel, func(*appsv1.StatefulSet) {}} {
		synctest.Test(t, func(t *testing.T) {
			p := plane(t)
			var created atomic.Int32
			p.Fail(func(call client.Call) error {
				if call.Verb == "create" && call.Kind.Resource == "pods" && created.Add(1) > 600 {
					return apierrors.NewForbidden(call.Kind.GroupResource(), "", errors.New("exceeded quota"))
				}
				return nil
			})
			p.Add(p.RunPods)
			p.Start()
			controltest.Create(p, set(1<<31-1, policy))
			time.Sleep(time.Minute)
			first := created.Load()
			time.Sleep(time.Hour)
			if first < 600 || created.Load() > first+100 {
				t.Errorf("%d creations in a minute, %d in an hour", first, created.Load())
			}
			if got := status(p); got.Replicas != 600 {
				t.Errorf("got status %+v", got)
			}
			if got := p.Events("FailedCreate"); len(got) == 0 || !strings.Contains(got[0], "in StatefulSet web failed error: ") {
				t.Errorf("got Events %q", got)
			}
		})
	}
}

// counting counts the writes of a set's objects.
type counting struct {
	client.Interface
	created, deleted, statuses atomic.Int32
}

func (c *counting) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	switch {
	case call.Kind.Resource == "pods" && call.Verb == "create":
		c.created.Add(1)
	case call.Kind.Resource == "pods" && call.Verb == "delete":
		c.deleted.Add(1)
	case call.Kind.Resource == "statefulsets" && call.Writes():
		c.statuses.Add(1)
	}
	return c.Interface.Do(ctx, call, into)
}

// TestActsOnceOnAStaleCache checks that each pod is created and deleted once, however late the informer of
// pods is, and by a second term too.
func TestActsOnceOnAStaleCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "Pod", 2*time.Second)
		counted := &counting{Interface: p.Client}
		p.Config.Client = controller.Client(counted)
		p.Declare(New)
		p.Add(p.RunPods)
		p.Start()
		controltest.Create(p, set(5, parallel))
		for i := range 20 {
			change(p, func(s *appsv1.StatefulSet) { s.Annotations["n"] = fmt.Sprint(i) })
			time.Sleep(500 * time.Millisecond)
		}
		scale(p, 2)
		for i := range 20 {
			change(p, func(s *appsv1.StatefulSet) { s.Annotations["n"] = fmt.Sprint("again", i) })
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if created, deleted := counted.created.Load(), counted.deleted.Load(); created != 5 || deleted != 3 {
			t.Errorf("got %d creations and %d deletions, want 5 and 3", created, deleted)
		}
		if n := counted.statuses.Load(); n > 20 {
			t.Errorf("the status was written %d times", n)
		}
	})
}
