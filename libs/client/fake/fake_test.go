package fake_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestCreate(t *testing.T) {
	c := fake.New(scheme.New())
	pods := client.Of[*corev1.Pod](c)
	in := pod("a")
	in.Status.Phase = corev1.PodRunning
	a := must(pods.Create(t.Context(), in, metav1.CreateOptions{}))(t)
	if a.UID == "" || a.ResourceVersion == "" || a.CreationTimestamp.IsZero() || a.Generation != 1 {
		t.Errorf("metadata %+v", a.ObjectMeta)
	}
	if a.Status.Phase != corev1.PodPending {
		t.Errorf("phase %q: the server must reset the status of a new object", a.Status.Phase)
	}
	if _, err := pods.Create(t.Context(), pod("a"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("second create: %v", err)
	}
	if _, err := pods.Create(t.Context(), a, metav1.CreateOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("create with a resourceVersion: %v", err)
	}
	generated := pod("")
	generated.GenerateName = "web-"
	g := must(pods.Create(t.Context(), generated, metav1.CreateOptions{}))(t)
	if len(g.Name) != len("web-")+5 {
		t.Errorf("generated name %q", g.Name)
	}
	dry := must(pods.Create(t.Context(), pod("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))(t)
	if _, err := pods.Get(t.Context(), "default", dry.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run was stored: %v", err)
	}
}

func TestUpdate(t *testing.T) {
	c := fake.New(scheme.New())
	deployments := client.Of[*appsv1.Deployment](c)
	d := must(deployments.Create(t.Context(), deployment("d", 1), metav1.CreateOptions{}))(t)

	status := d.DeepCopy()
	status.Status.Replicas = 3
	*status.Spec.Replicas = 9
	status.Labels = map[string]string{"x": "y"}
	s := must(deployments.UpdateStatus(t.Context(), status, metav1.UpdateOptions{}))(t)
	if s.Status.Replicas != 3 || *s.Spec.Replicas != 1 || s.Labels != nil || s.Generation != 1 {
		t.Errorf("after a status update: %+v", s)
	}
	if _, err := deployments.Update(t.Context(), d, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update of an old version: %v", err)
	}

	spec := s.DeepCopy()
	*spec.Spec.Replicas = 2
	spec.Status.Replicas = 100
	u := must(deployments.Update(t.Context(), spec, metav1.UpdateOptions{}))(t)
	if *u.Spec.Replicas != 2 || u.Status.Replicas != 3 || u.Generation != 2 {
		t.Errorf("after a spec update: %+v", u)
	}
	same := must(deployments.Update(t.Context(), u, metav1.UpdateOptions{}))(t)
	if same.ResourceVersion != u.ResourceVersion {
		t.Error("an update without changes created a revision")
	}
	other := u.DeepCopy()
	other.UID = "other"
	if _, err := deployments.Update(t.Context(), other, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update with another uid: %v", err)
	}
}

func TestReturnedObjectsAreTheCallers(t *testing.T) {
	c := fake.New(scheme.New(), pod("a"))
	pods := client.Of[*corev1.Pod](c)
	a := must(pods.Get(t.Context(), "default", "a", metav1.GetOptions{}))(t)
	a.Labels["app"] = "changed"
	if again := must(pods.Get(t.Context(), "default", "a", metav1.GetOptions{}))(t); again.Labels["app"] != "web" {
		t.Error("a caller's change reached the store")
	}
}

func TestPatch(t *testing.T) {
	for name, test := range map[string]struct {
		kind  types.PatchType
		patch string
		want  func(error, *corev1.Pod) bool
	}{
		"strategic merges containers by name": {types.StrategicMergePatchType,
			`{"spec":{"containers":[{"name":"c","image":"new"}]}}`,
			func(err error, p *corev1.Pod) bool { return err == nil && p.Spec.Containers[0].Image == "new" }},
		"merge": {types.MergePatchType, `{"metadata":{"labels":{"x":"y"}}}`,
			func(err error, p *corev1.Pod) bool {
				return err == nil && p.Labels["x"] == "y" && p.Labels["app"] == "web"
			}},
		"json": {types.JSONPatchType, `[{"op":"remove","path":"/metadata/labels/app"}]`,
			func(err error, p *corev1.Pod) bool { return err == nil && len(p.Labels) == 0 }},
		"uid of another": {types.StrategicMergePatchType, `{"metadata":{"uid":"other"}}`,
			func(err error, _ *corev1.Pod) bool { return apierrors.IsConflict(err) }},
		"old version": {types.MergePatchType, `{"metadata":{"resourceVersion":"1"}}`,
			func(err error, _ *corev1.Pod) bool { return apierrors.IsConflict(err) }},
		"not JSON": {types.MergePatchType, `{`,
			func(err error, _ *corev1.Pod) bool { return apierrors.IsBadRequest(err) }},
		"unknown type": {types.ApplyYAMLPatchType, `{}`,
			func(err error, _ *corev1.Pod) bool { return apierrors.IsUnsupportedMediaType(err) }},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.New(scheme.New(), pod("a"))
			p, err := client.Of[*corev1.Pod](c).Patch(t.Context(), "default", "a", test.kind, []byte(test.patch), metav1.PatchOptions{}, "")
			if !test.want(err, p) {
				t.Errorf("patched to %+v, %v", p, err)
			}
		})
	}
}

func TestDelete(t *testing.T) {
	foreground := metav1.DeletePropagationForeground
	uid := types.UID("other")
	running := func() *corev1.Pod {
		p := pod("a")
		p.Spec.NodeName = "n"
		return p
	}
	for name, test := range map[string]struct {
		object scheme.Object
		opts   metav1.DeleteOptions
		want   func(left *corev1.Pod, err error) bool
	}{
		"an unbound pod is deleted at once": {pod("a"), metav1.DeleteOptions{},
			func(p *corev1.Pod, err error) bool { return err == nil && p == nil }},
		"a bound pod gets its grace period": {running(), metav1.DeleteOptions{},
			func(p *corev1.Pod, err error) bool {
				return err == nil && p != nil && p.DeletionTimestamp != nil && *p.DeletionGracePeriodSeconds == 30
			}},
		"a grace period of 0": {running(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)},
			func(p *corev1.Pod, err error) bool { return err == nil && p == nil }},
		"uid": {running(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
			func(p *corev1.Pod, err error) bool { return apierrors.IsConflict(err) && p.DeletionTimestamp == nil }},
		"foreground": {pod("a"), metav1.DeleteOptions{PropagationPolicy: &foreground},
			func(p *corev1.Pod, err error) bool {
				return err == nil && p != nil && p.DeletionTimestamp != nil && p.Finalizers[0] == metav1.FinalizerDeleteDependents
			}},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.New(scheme.New(), test.object)
			pods := client.Of[*corev1.Pod](c)
			err := pods.Delete(t.Context(), "default", "a", test.opts)
			left, getErr := pods.Get(t.Context(), "default", "a", metav1.GetOptions{})
			if getErr != nil {
				left = nil
			}
			if !test.want(left, err) {
				t.Errorf("got %+v, %v after the deletion", left, err)
			}
		})
	}
}

func TestFinalizersHoldAnObject(t *testing.T) {
	p := pod("a")
	p.Finalizers = []string{"example.com/x"}
	c := fake.New(scheme.New(), p)
	pods := client.Of[*corev1.Pod](c)
	if err := pods.Delete(t.Context(), "default", "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	held := must(pods.Get(t.Context(), "default", "a", metav1.GetOptions{}))(t)
	held.Finalizers = nil
	must(pods.Update(t.Context(), held, metav1.UpdateOptions{}))(t)
	if _, err := pods.Get(t.Context(), "default", "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after its last finalizer: %v", err)
	}
}

func TestNamespaceEnds(t *testing.T) {
	c := fake.New(scheme.New())
	namespaces, pods := client.Of[*corev1.Namespace](c), client.Of[*corev1.Pod](c)
	must(namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}))(t)
	if err := namespaces.Delete(t.Context(), "", "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n := must(namespaces.Get(t.Context(), "", "default", metav1.GetOptions{}))(t)
	if n.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("phase %q", n.Status.Phase)
	}
	_, err := pods.Create(t.Context(), pod("a"), metav1.CreateOptions{})
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("create in a terminating namespace: %v", err)
	}
	n.Spec.Finalizers = nil
	must(namespaces.UpdateSubresource(t.Context(), n, "finalize", metav1.UpdateOptions{}))(t)
	if _, err := namespaces.Get(t.Context(), "", "default", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after finalize: %v", err)
	}
}

func TestList(t *testing.T) {
	c := fake.New(scheme.New())
	for i := range 5 {
		p := pod(fmt.Sprint("p", i))
		p.Labels["i"] = fmt.Sprint(i)
		if i%2 == 0 {
			p.Spec.NodeName = "n"
		}
		c.Load(p)
	}
	pods := client.Of[*corev1.Pod](c)
	for _, test := range []struct {
		opts metav1.ListOptions
		want int
	}{
		{metav1.ListOptions{}, 5},
		{metav1.ListOptions{LabelSelector: "i in (1,2)"}, 2},
		{metav1.ListOptions{FieldSelector: "spec.nodeName=n"}, 3},
		{metav1.ListOptions{FieldSelector: "metadata.name!=p0,spec.nodeName=n"}, 2},
		{metav1.ListOptions{Limit: 2}, 5},
	} {
		items, rv, err := pods.List(t.Context(), "default", test.opts)
		if err != nil || len(items) != test.want || rv != fmt.Sprint(c.Revision()) {
			t.Errorf("list %+v: %d items at %s, %v; want %d", test.opts, len(items), rv, err, test.want)
		}
	}
	if _, _, err := pods.List(t.Context(), "", metav1.ListOptions{FieldSelector: "spec.nonsense=1"}); !apierrors.IsBadRequest(err) {
		t.Errorf("unknown field: %v", err)
	}
	if _, _, err := pods.List(t.Context(), "", metav1.ListOptions{ResourceVersion: "1000"}); !apierrors.IsTimeout(err) {
		t.Errorf("future revision: %v", err)
	}
}

func TestPagesShowOneRevision(t *testing.T) {
	c := fake.New(scheme.New(), pod("a"), pod("b"), pod("c"))
	kind := scheme.For[*corev1.Pod](c.Table())
	first := kind.NewList().(*corev1.PodList)
	call := client.Call{Verb: "list", Kind: kind, Options: &metav1.ListOptions{Limit: 1}}
	if err := c.Do(t.Context(), call, first); err != nil {
		t.Fatal(err)
	}
	c.Remove(pod("b"))
	c.Load(pod("d"))
	rest := kind.NewList().(*corev1.PodList)
	call.Options = &metav1.ListOptions{Continue: first.Continue}
	if err := c.Do(t.Context(), call, rest); err != nil {
		t.Fatal(err)
	}
	if len(rest.Items) != 2 || rest.Items[0].Name != "b" || rest.Items[1].Name != "c" || rest.ResourceVersion != first.ResourceVersion {
		t.Errorf("second page %v at %s", rest.Items, rest.ResourceVersion)
	}
}

func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		if !ok {
			t.Fatal("the watch has ended")
		}
		return e
	case <-time.After(time.Minute):
		t.Fatal("no event")
	}
	return watch.Event{}
}

func TestWatch(t *testing.T) {
	c := fake.New(scheme.New(), pod("a"))
	pods := client.Of[*corev1.Pod](c)
	from := fmt.Sprint(c.Revision())
	c.Load(pod("b"))
	w := must(pods.Watch(t.Context(), "default", metav1.ListOptions{ResourceVersion: from, LabelSelector: "app=web"}))(t)
	defer w.Stop()
	if e := next(t, w); e.Type != watch.Added || e.Object.(*corev1.Pod).Name != "b" {
		t.Errorf("first event %v", e)
	}
	b := must(pods.Get(t.Context(), "default", "b", metav1.GetOptions{}))(t)
	b.Labels = nil
	gone := must(pods.Update(t.Context(), b, metav1.UpdateOptions{}))(t)
	e := next(t, w)
	if e.Type != watch.Deleted || e.Object.(*corev1.Pod).ResourceVersion != gone.ResourceVersion {
		t.Errorf("an object that is no longer selected appears as %v at %s", e.Type, e.Object.(*corev1.Pod).ResourceVersion)
	}
	c.Remove(pod("a"))
	if e := next(t, w); e.Type != watch.Deleted || e.Object.(*corev1.Pod).Name != "a" {
		t.Errorf("third event %v", e)
	}
	c.CloseWatches()
	if e, ok := <-w.ResultChan(); ok {
		t.Errorf("event %v after the end", e)
	}
}

func TestWatchList(t *testing.T) {
	c := fake.New(scheme.New(), pod("a"), pod("b"))
	yes := true
	w := must(client.Of[*corev1.Pod](c).Watch(t.Context(), "", metav1.ListOptions{
		SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}))(t)
	defer w.Stop()
	for range 2 {
		if e := next(t, w); e.Type != watch.Added {
			t.Errorf("event %v", e)
		}
	}
	e := next(t, w)
	if p := e.Object.(*corev1.Pod); e.Type != watch.Bookmark || p.Annotations[metav1.InitialEventsAnnotationKey] != "true" ||
		p.ResourceVersion != fmt.Sprint(c.Revision()) {
		t.Errorf("bookmark %v", e)
	}
}

func TestWatchOfCompactedHistory(t *testing.T) {
	c := fake.New(scheme.New(), pod("a"), pod("b"))
	c.Compact()
	w := must(client.Of[*corev1.Pod](c).Watch(t.Context(), "", metav1.ListOptions{ResourceVersion: "2"}))(t)
	defer w.Stop()
	e := next(t, w)
	if e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		t.Errorf("event %v", e)
	}
	if _, ok := <-w.ResultChan(); ok {
		t.Error("the watch did not end")
	}
}

func TestWatchEndsWithItsContextAndTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.New(scheme.New())
		ctx, cancel := context.WithCancel(t.Context())
		w := must(client.Of[*corev1.Pod](c).Watch(ctx, "", metav1.ListOptions{}))(t)
		cancel()
		if _, ok := <-w.ResultChan(); ok {
			t.Error("unexpected event")
		}
		seconds := int64(30)
		began := time.Now()
		w = must(client.Of[*corev1.Pod](c).Watch(t.Context(), "", metav1.ListOptions{TimeoutSeconds: &seconds}))(t)
		if _, ok := <-w.ResultChan(); ok || time.Since(began) != 30*time.Second {
			t.Errorf("ended after %v", time.Since(began))
		}
	})
}

func TestBinding(t *testing.T) {
	c := fake.New(scheme.New(), pod("a"))
	pods := client.Of[*corev1.Pod](c)
	bind := func(node string) error {
		return pods.CreateSubresource(t.Context(), "default", "a", "binding", &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
		}, nil, metav1.CreateOptions{})
	}
	if err := bind("n1"); err != nil {
		t.Fatal(err)
	}
	if err := bind("n2"); !apierrors.IsConflict(err) {
		t.Errorf("second binding: %v", err)
	}
	if a := must(pods.Get(t.Context(), "default", "a", metav1.GetOptions{}))(t); a.Spec.NodeName != "n1" || len(a.Status.Conditions) != 1 {
		t.Errorf("bound pod %+v", a)
	}
}

func TestScale(t *testing.T) {
	c := fake.New(scheme.New(), deployment("d", 2))
	kind := scheme.For[*appsv1.Deployment](c.Table())
	var scale autoscalingv1.Scale
	call := client.Call{Verb: "get", Kind: kind, Namespace: "default", Name: "d", Subresource: "scale"}
	if err := c.Do(t.Context(), call, &scale); err != nil || scale.Spec.Replicas != 2 || scale.Status.Selector != "app=web" {
		t.Fatalf("scale %+v, %v", scale, err)
	}
	call.Verb, call.PatchType, call.Patch = "patch", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`)
	if err := c.Do(t.Context(), call, &scale); err != nil || scale.Spec.Replicas != 5 {
		t.Fatalf("scale %+v, %v", scale, err)
	}
	if d := must(client.Of[*appsv1.Deployment](c).Get(t.Context(), "default", "d", metav1.GetOptions{}))(t); *d.Spec.Replicas != 5 {
		t.Errorf("replicas %d", *d.Spec.Replicas)
	}
}

func TestHooks(t *testing.T) {
	c := fake.New(scheme.New(), pod("a"))
	boom := errors.New("boom")
	c.Fail(func(call client.Call) error {
		if call.Verb == "delete" {
			return boom
		}
		return nil
	})
	pods := client.Of[*corev1.Pod](c)
	if err := pods.Delete(t.Context(), "default", "a", metav1.DeleteOptions{}); !errors.Is(err, boom) {
		t.Errorf("delete: %v", err)
	}
	must(pods.Get(t.Context(), "default", "a", metav1.GetOptions{}))(t)
	if calls := c.Calls(); len(calls) != 2 || calls[0].Verb != "delete" || len(c.Writes()) != 1 {
		t.Errorf("calls %+v", calls)
	}
	c.ClearCalls()
	if len(c.Calls()) != 0 {
		t.Error("calls remain after ClearCalls")
	}
}

func TestUnstoredKindsAreRefused(t *testing.T) {
	c := fake.New(scheme.New())
	if _, _, err := client.Of[*eventsv1.Event](c).List(t.Context(), "", metav1.ListOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("events.k8s.io: %v", err)
	}
	if _, err := client.Of[*corev1.Pod](c).Stream(t.Context(), "default", "a", "log", nil); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("log: %v", err)
	}
}
