package registry_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/binding"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

const patience = time.Minute

// next returns the next event as "TYPE name".
func next(t *testing.T, w *following) (string, scheme.Object) {
	t.Helper()
	select {
	case event, ok := <-w.ResultChan():
		if !ok {
			t.Fatal("the watch ended")
		}
		obj, ok := event.Object.(scheme.Object)
		if !ok {
			t.Fatalf("the watch sent %s %+v", event.Type, event.Object)
		}
		return fmt.Sprintf("%s %s", event.Type, obj.GetName()), obj
	case <-time.After(patience):
		t.Fatal("no event came")
	}
	return "", nil
}

func expect(t *testing.T, w *following, want string) scheme.Object {
	t.Helper()
	got, obj := next(t, w)
	if got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	return obj
}

func TestWatchSelectsAsObjectsComeAndGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := resource[*corev1.ConfigMap](w)
	label := func(name, value string) {
		if _, err := update(w, "default", name, "", func(c *corev1.ConfigMap) { c.Labels = map[string]string{"in": value} }); err != nil {
			t.Fatal(err)
		}
	}
	create(w, "default", newConfigMap("a"))
	label("a", "yes")
	watching := follow(t, maps, "default", metav1.ListOptions{LabelSelector: "in=yes"})
	expect(t, watching, "ADDED a")
	create(w, "default", newConfigMap("b"))
	label("b", "yes")
	expect(t, watching, "ADDED b")
	label("a", "no")
	gone := expect(t, watching, "DELETED a")
	if gone.GetLabels()["in"] != "yes" || gone.GetResourceVersion() != get[*corev1.ConfigMap](w, "default", "a").ResourceVersion {
		t.Errorf("the object that left is %+v", gone)
	}
	if _, err := update(w, "default", "b", "", func(c *corev1.ConfigMap) { c.Data["a"] = "z" }); err != nil {
		t.Fatal(err)
	}
	expect(t, watching, "MODIFIED b")
	last, _, err := maps.Delete(t.Context(), "default", "b", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := expect(t, watching, "DELETED b"); got.GetResourceVersion() != last.GetResourceVersion() {
		t.Errorf("the deletion is at %s, want %s", got.GetResourceVersion(), last.GetResourceVersion())
	}
}

func TestWatchFromARevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := resource[*corev1.ConfigMap](w)
	a := create(w, "default", newConfigMap("a"))
	create(w, "default", newConfigMap("b"))
	watching := follow(t, maps, "", metav1.ListOptions{ResourceVersion: a.ResourceVersion})
	expect(t, watching, "ADDED b")
	create(w, "default", newConfigMap("c"))
	expect(t, watching, "ADDED c")

	if _, err := maps.Watch(t.Context(), "", metav1.ListOptions{ResourceVersion: "x"}); !apierrors.IsInvalid(err) {
		t.Errorf("a malformed version: %v", err)
	}
}

func TestWatchListEndsItsInitialEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := resource[*corev1.ConfigMap](w)
	create(w, "default", newConfigMap("a"))
	create(w, "default", newConfigMap("b"))
	yes := true
	watching := follow(t, maps, "default", metav1.ListOptions{
		SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	})
	got := []string{}
	for range 2 {
		event, _ := next(t, watching)
		got = append(got, event)
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"ADDED a", "ADDED b"}) {
		t.Errorf("the initial events are %v", got)
	}
	end := expect(t, watching, "BOOKMARK ")
	version, err := strconv.Atoi(end.GetResourceVersion())
	if end.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" || err != nil || version == 0 ||
		end.GetObjectKind().GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("ConfigMap") {
		t.Errorf("the end is %+v", end)
	}
	create(w, "default", newConfigMap("c"))
	expect(t, watching, "ADDED c")

	for _, opts := range []metav1.ListOptions{
		{SendInitialEvents: &yes},
		{ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan},
		{SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchExact, ResourceVersion: "1"},
	} {
		if _, err := maps.Watch(t.Context(), "default", opts); !apierrors.IsInvalid(err) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}

func TestPodsOfANode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pods := resource[*corev1.Pod](w)
	watching := follow(t, pods, "", metav1.ListOptions{FieldSelector: "spec.nodeName=n1"})
	create(w, "default", newPod("a"))
	create(w, "default", newPod("b"))
	for name, node := range map[string]string{"a": "n1", "b": "n2"} {
		if _, err := binding.Bind(t.Context(), pods, "default", name, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Name: node}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, watching, "ADDED a")
	if _, err := update(w, "default", "a", "status", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }); err != nil {
		t.Fatal(err)
	}
	expect(t, watching, "MODIFIED a")
	for selector, want := range map[string][]string{
		"spec.nodeName=n1":                       {"a"},
		"spec.nodeName=n2":                       {"b"},
		"spec.nodeName=":                         {},
		"spec.nodeName!=n1":                      {"b"},
		"status.phase=Running":                   {"a"},
		"metadata.name=b":                        {"b"},
		"metadata.name=b,spec.nodeName=n1":       {},
		"spec.hostNetwork=false,metadata.name=a": {"a"},
	} {
		for _, namespace := range []string{"", "default"} {
			list, err := pods.List(t.Context(), namespace, metav1.ListOptions{FieldSelector: selector})
			if err != nil {
				t.Fatalf("%s: %v", selector, err)
			}
			names := []string{}
			for _, pod := range list.(*corev1.PodList).Items {
				names = append(names, pod.Name)
			}
			if !slices.Equal(names, want) {
				t.Errorf("%s in %q selects %v, want %v", selector, namespace, names, want)
			}
		}
	}
	_, err := pods.List(t.Context(), "", metav1.ListOptions{FieldSelector: "spec.color=red"})
	if !apierrors.IsBadRequest(err) || err.Error() != "field label not supported: spec.color" {
		t.Errorf("an unknown field: %v", err)
	}
	_, err = resource[*appsv1.Deployment](w).List(t.Context(), "", metav1.ListOptions{FieldSelector: "status.replicas=1"})
	if !apierrors.IsBadRequest(err) || err.Error() != `"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"` {
		t.Errorf("a field of a kind that selects by none: %v", err)
	}
	if _, err := pods.List(t.Context(), "", metav1.ListOptions{LabelSelector: "a in ("}); !apierrors.IsBadRequest(err) {
		t.Errorf("a malformed selector: %v", err)
	}
}

func TestListAtRevisions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := resource[*corev1.ConfigMap](w)
	for i := range 5 {
		create(w, "default", newConfigMap(fmt.Sprintf("c%d", i)))
	}
	third := get[*corev1.ConfigMap](w, "default", "c2").ResourceVersion
	last := get[*corev1.ConfigMap](w, "default", "c4").ResourceVersion
	count := func(opts metav1.ListOptions) (int, string) {
		t.Helper()
		list, err := maps.List(t.Context(), "default", opts)
		if err != nil {
			t.Fatalf("%+v: %v", opts, err)
		}
		items := list.(*corev1.ConfigMapList)
		return len(items.Items), items.Continue
	}
	if n, _ := count(metav1.ListOptions{}); n != 5 {
		t.Errorf("now there are %d", n)
	}
	if n, _ := count(metav1.ListOptions{ResourceVersion: third, ResourceVersionMatch: metav1.ResourceVersionMatchExact}); n != 3 {
		t.Errorf("at %s there are %d", third, n)
	}
	if n, _ := count(metav1.ListOptions{ResourceVersion: last, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}); n != 5 {
		t.Errorf("from %s on there are %d", last, n)
	}
	seen, token := 0, ""
	for range 3 {
		n, next := count(metav1.ListOptions{Limit: 2, Continue: token})
		seen, token = seen+n, next
	}
	if seen != 5 || token != "" {
		t.Errorf("pages give %d and end with %q", seen, token)
	}
	if _, err := maps.List(t.Context(), "default", metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchExact}); !apierrors.IsInvalid(err) {
		t.Errorf("a match without a version: %v", err)
	}
	if n, token := count(metav1.ListOptions{Limit: -1}); n != 5 || token != "" {
		t.Errorf("a negative limit, which means no limit, returns %d and %q", n, token)
	}
}

func TestEventsAreServedInBothForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	newer := resource[*eventsv1.Event](w)
	watching := follow(t, resource[*corev1.Event](w), "default", metav1.ListOptions{FieldSelector: "involvedObject.name=p"})
	created := create(w, "default", &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e"}, EventTime: metav1.NowMicro(), ReportingController: "example.com/c", ReportingInstance: "i",
		Action: "Doing", Reason: "Done", Type: "Normal", Note: "it is", Regarding: corev1.ObjectReference{Kind: "Pod", Name: "p", Namespace: "default"},
	})
	old := expect(t, watching, "ADDED e").(*corev1.Event)
	if old.Message != "it is" || old.InvolvedObject.Name != "p" || old.UID != created.UID || old.Kind != "Event" || old.APIVersion != "v1" {
		t.Errorf("the core event is %+v", old)
	}
	list, err := newer.List(t.Context(), "default", metav1.ListOptions{FieldSelector: "regarding.name=p"})
	if err != nil || len(list.(*eventsv1.EventList).Items) != 1 || list.(*eventsv1.EventList).Items[0].Note != "it is" {
		t.Errorf("listing: %v, %+v", err, list)
	}
	updated, err := update(w, "default", "e", "", func(e *eventsv1.Event) {
		e.Series = &eventsv1.EventSeries{Count: 2, LastObservedTime: metav1.NowMicro()}
	})
	if err != nil || updated.Series.Count != 2 {
		t.Errorf("going on: %v, %+v", err, updated)
	}
	if _, err := update(w, "default", "e", "", func(e *eventsv1.Event) { e.Note = "other" }); !apierrors.IsInvalid(err) {
		t.Errorf("changing the note: %v", err)
	}
	_, err = newer.Get(t.Context(), "default", "gone")
	if !apierrors.IsNotFound(err) || err.Error() != `events.events.k8s.io "gone" not found` {
		t.Errorf("a missing event: %v", err)
	}
}

func TestStoppedWatchEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	watching := follow(t, resource[*corev1.Pod](w), "", metav1.ListOptions{})
	watching.Stop()
	watching.Stop()
	for event := range watching.ResultChan() {
		if event.Type == watch.Error {
			t.Errorf("stopping gave %+v", event)
		}
	}
}

// stuck is a sink that blocks at its first event until the watch's time is over.
type stuck struct {
	over <-chan struct{}
	told []watch.EventType
}

func (s *stuck) Send(event registry.Event) error {
	if s.told = append(s.told, event.Type); event.Type != watch.Bookmark {
		<-s.over
	}
	return nil
}

func (s *stuck) Flush() error { return nil }

// TestLateBookmark checks that a watch reports its position before it times out, even if it could
// not run between the two.
func TestLateBookmark(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	maps := resource[*corev1.ConfigMap](w)
	ctx, cancel := context.WithTimeout(t.Context(), registry.BookmarkBefore+3*time.Second)
	defer cancel()
	sinks := make([]stuck, 10)
	var running sync.WaitGroup
	for i := range sinks {
		sinks[i].over = ctx.Done()
		watching, err := maps.Watch(t.Context(), "default", metav1.ListOptions{AllowWatchBookmarks: true})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := watching.Run(ctx, nil, &sinks[i]); err != nil {
				t.Error(err)
			}
		})
	}
	create(w, "default", newConfigMap("a"))
	running.Wait()
	for i := range sinks {
		if told := sinks[i].told; len(told) == 0 || told[len(told)-1] != watch.Bookmark {
			t.Errorf("the watch ended with %v", told)
		}
	}
}
