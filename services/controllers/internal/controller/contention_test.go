package controller_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// timed notes when writes for a config map were tried, by its name.
type timed struct {
	client.Interface
	mu     sync.Mutex
	writes map[string][]time.Time
}

func (c *timed) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	if call.Writes() && call.Kind.Kind != "Event" {
		c.mu.Lock()
		name, _, _ := strings.Cut(call.Name, "-")
		if pod, ok := call.Body.(*corev1.Pod); ok {
			name, _, _ = strings.Cut(pod.Name+pod.GenerateName, "-")
		}
		c.writes[name] = append(c.writes[name], time.Now())
		c.mu.Unlock()
	}
	return c.Interface.Do(ctx, call, into)
}

// most returns the most writes in any minute after a time.
func (c *timed) most(name string, after time.Time) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := 0
	writes := c.writes[name]
	for i, from := range writes {
		if from.Before(after) {
			continue
		}
		n := 0
		for _, when := range writes[i:] {
			if when.Sub(from) < time.Minute {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// wanting writes a=ours into config maps, and keeps as many pods for each as it says; it deletes others unless one has failed.
type wanting struct {
	maps *controller.Objects[*corev1.ConfigMap]
	pods *controller.Owned[*corev1.Pod, *corev1.ConfigMap]
	// patches means that it writes without a revision.
	patches bool
}

func (w *wanting) declare(d controller.Deps) *controller.Spec {
	w.maps = controller.For[*corev1.ConfigMap](d)
	w.pods = controller.OwnedBy[*corev1.Pod](d, w.maps)
	return &controller.Spec{
		Name: "test-controller", Resource: "configmaps", For: w.maps, Watches: []controller.Watch{w.pods}, Reconcile: w.reconcile,
	}
}

func (w *wanting) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	m, found := w.maps.Get(key)
	if !found {
		return reconcile.Result{}, nil
	}
	pods, err := w.pods.Controlled(m)
	if err != nil {
		return reconcile.Result{}, err
	}
	var living int
	for _, pod := range pods {
		if pod.Status.Phase != corev1.PodFailed {
			living++
		}
	}
	for ; living < len(m.Data["pods"]); living++ {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Namespace, GenerateName: m.Name + "-",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: m.Name, UID: m.UID, Controller: new(true)}},
		}}
		if _, err := w.pods.Client.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return reconcile.Result{}, fmt.Errorf("creating a pod: %w", err)
		}
	}
	for ; living > len(m.Data["pods"]) && living == len(pods); living-- {
		if err := w.pods.Client.Delete(ctx, m.Namespace, pods[living-1].Name, metav1.DeleteOptions{}); err != nil {
			return reconcile.Result{}, fmt.Errorf("deleting a pod: %w", err)
		}
	}
	if m.Data["a"] == "ours" {
		return reconcile.Result{}, nil
	}
	if w.patches {
		_, err = w.maps.Client.Patch(ctx, m.Namespace, m.Name, types.MergePatchType, []byte(`{"data":{"a":"ours"}}`), metav1.PatchOptions{}, "")
		return reconcile.Result{}, err
	}
	m = m.DeepCopy()
	m.Data["a"] = "ours"
	_, err = w.maps.Client.Update(ctx, m, metav1.UpdateOptions{})
	return reconcile.Result{}, err
}

func configMap(name, pods string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Data:       map[string]string{"pods": pods, "a": "ours"},
	}
}

// fight is what another client does every 100 ms.
type fight struct {
	patches bool
	pods    string
	act     func(t *testing.T, p *controltest.Plane, n int)
	// during fails the controller's writes.
	during func(call client.Call) error
	says   string
}

func fights() map[string]fight {
	revert := func(_ *testing.T, p *controltest.Plane, _ int) {
		controltest.Change(p, "default", "fought", func(m *corev1.ConfigMap) { m.Data["a"] = "theirs" })
	}
	return map[string]fight{
		"an update is undone": {act: revert, says: "ConfigMap default/fought changes back after the same write, 10 times within 1m0s"},
		"a patch is undone":   {act: revert, patches: true, says: "ConfigMap default/fought changes back after the same write, 10 times within 1m0s"},
		"pods are deleted": {pods: "two", says: "Pods that it creates are deleted or fail within 1m0s, 10 times in a row", act: func(t *testing.T, p *controltest.Plane, _ int) {
			for _, pod := range controltest.List[*corev1.Pod](p) {
				if err := client.Of[*corev1.Pod](p.Client).Delete(t.Context(), pod.Namespace, pod.Name, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}
		}},
		"pods fail": {pods: "x", says: "Pods that it creates are deleted or fail within 1m0s, 10 times in a row", act: func(_ *testing.T, p *controltest.Plane, _ int) {
			for _, pod := range controltest.List[*corev1.Pod](p) {
				if pod.Status.Phase != corev1.PodFailed {
					controltest.SetStatus(p, pod.Namespace, pod.Name, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })
				}
			}
		}},
		"writes conflict": {says: "its last 10 writes conflict with those of another client",
			act: func(_ *testing.T, p *controltest.Plane, n int) {
				controltest.Change(p, "default", "fought", func(m *corev1.ConfigMap) { m.Data["a"], m.Data["n"] = "theirs", fmt.Sprint(n) })
			},
			during: func(call client.Call) error {
				if m, ok := call.Body.(*corev1.ConfigMap); ok && m.Name == "fought" && m.Data["a"] == "ours" {
					return apierrors.NewConflict(corev1.Resource("configmaps"), "fought", nil)
				}
				return nil
			},
		},
	}
}

// TestContention checks that a controller that something fights writes at most 30 times in any minute once
// it has noticed, says so once, goes on with other keys at once, and is fast again when it is over.
func TestContention(t *testing.T) {
	for name, c := range fights() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := controltest.New(t, configMap("fought", c.pods), configMap("other", ""))
				counted := &timed{Interface: p.Client, writes: map[string][]time.Time{}}
				p.Config.Client = controller.Client(counted)
				p.Declare((&wanting{patches: c.patches}).declare)
				p.Start()
				time.Sleep(time.Second)
				p.Fail(c.during)
				start := time.Now()
				for n := range 3000 {
					c.act(t, p, n)
					time.Sleep(100 * time.Millisecond)
					if n%100 != 99 {
						continue
					}
					controltest.Change(p, "default", "other", func(m *corev1.ConfigMap) { m.Data["a"] = "theirs" })
					time.Sleep(10 * time.Millisecond)
					if m := controltest.Get[*corev1.ConfigMap](p, "default", "other"); m.Data["a"] != "ours" {
						t.Fatalf("round %d: the other key waits", n)
					}
				}
				if most := counted.most("fought", start.Add(30*time.Second)); most > 30 || most == 0 {
					t.Errorf("got %d writes in a minute, want 1 to 30", most)
				}
				if got := p.Events("WriteBackOff"); len(got) != 1 || !strings.Contains(got[0], c.says) {
					t.Errorf("got Events %q, want one with %q", got, c.says)
				}
				p.Fail(nil)
				time.Sleep(2 * time.Minute)
				before := time.Now()
				for range 5 {
					controltest.Change(p, "default", "fought", func(m *corev1.ConfigMap) { m.Data["a"] = "theirs" })
					time.Sleep(10 * time.Millisecond)
				}
				if most := counted.most("fought", before); most != 5 {
					t.Errorf("got %d writes after the fight, want 5", most)
				}
			})
		})
	}
}

// TestContentionInACrowd checks that a controller which deletes what it has just created is slowed down while many
// other keys change too, so that each rests for a while before it deletes.
func TestContentionInACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const others = 120
		p := controltest.New(t, configMap("fought", ""))
		for n := range others {
			p.Load(configMap(fmt.Sprint("other", n), ""))
		}
		counted := &timed{Interface: p.Client, writes: map[string][]time.Time{}}
		p.Config.Client = controller.Client(counted)
		p.Declare((&wanting{}).declare)
		p.Start()
		want := func(pods string) {
			controltest.Change(p, "default", "fought", func(m *corev1.ConfigMap) { m.Data["pods"] = pods })
		}
		start := time.Now()
		for n := range 60 {
			for other := range others {
				controltest.Change(p, "default", fmt.Sprint("other", other), func(m *corev1.ConfigMap) { m.Data["n"] = fmt.Sprint(n) })
			}
			want("x")
			time.Sleep(100 * time.Millisecond)
			want("")
			time.Sleep(2900 * time.Millisecond)
		}
		if most := counted.most("fought", start.Add(time.Minute)); most > 30 || most == 0 {
			t.Errorf("got %d writes in a minute, want 1 to 30", most)
		}
		if got := p.Events("WriteBackOff"); len(got) != 1 {
			t.Errorf("got Events %q, want one", got)
		}
	})
}

// TestRemovingWhatHasEndedIsNoContention checks that a key is not slowed down when another removes pods that have
// succeeded.
func TestRemovingWhatHasEndedIsNoContention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, configMap("busy", "x"))
		p.Config.Client = controller.Client(p.Client)
		p.Declare((&wanting{}).declare)
		p.Start()
		for range 100 {
			time.Sleep(time.Second)
			for _, pod := range controltest.List[*corev1.Pod](p) {
				controltest.SetStatus(p, pod.Namespace, pod.Name, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
				time.Sleep(100 * time.Millisecond)
				if err := client.Of[*corev1.Pod](p.Client).Delete(t.Context(), pod.Namespace, pod.Name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := p.Events("WriteBackOff"); len(got) > 0 {
			t.Errorf("got Events %q", got)
		}
	})
}

// TestNoContention checks that many writes for a key, none of which is undone, are not slowed down.
func TestNoContention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, configMap("busy", strings.Repeat("x", 500)))
		counted := &timed{Interface: p.Client, writes: map[string][]time.Time{}}
		p.Config.Client = controller.Client(counted)
		p.Declare((&wanting{}).declare)
		p.Start()
		pods := func(what string) {
			t.Helper()
			time.Sleep(time.Second)
			if n := len(controltest.List[*corev1.Pod](p)); n != 500 {
				t.Fatalf("%s: got %d pods, want 500", what, n)
			}
		}
		pods("at first")
		for range 5 {
			for _, pod := range controltest.List[*corev1.Pod](p) {
				if err := client.Of[*corev1.Pod](p.Client).Delete(t.Context(), pod.Namespace, pod.Name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			pods("after all were deleted")
		}
		// What it writes differs each time.
		for n := range 100 {
			controltest.Change(p, "default", "busy", func(m *corev1.ConfigMap) { m.Data["a"], m.Data["n"] = "theirs", fmt.Sprint(n) })
			time.Sleep(100 * time.Millisecond)
			if m := controltest.Get[*corev1.ConfigMap](p, "default", "busy"); m.Data["a"] != "ours" {
				t.Fatalf("%d: it is slow", n)
			}
		}
		// What is wanted goes to and fro.
		for n := range 600 {
			controltest.Change(p, "default", "busy", func(m *corev1.ConfigMap) { m.Data["a"], m.Data["n"] = "theirs", fmt.Sprint(n%2) })
			time.Sleep(100 * time.Millisecond)
			if m := controltest.Get[*corev1.ConfigMap](p, "default", "busy"); m.Data["a"] != "ours" {
				t.Fatalf("%d: it is slow", n)
			}
		}
		if got := p.Events("WriteBackOff"); len(got) > 0 {
			t.Errorf("got Events %q", got)
		}
	})
}
