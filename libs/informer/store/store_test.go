package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/store"
)

var errNoKey = errors.New("no key")

// keyed rejects pods without a name.
func keyed(obj *corev1.Pod) (string, error) {
	if obj.Name == "" {
		return "", errNoKey
	}
	return informer.Key(obj), nil
}

func pod(name, uid string, revision int64) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(uid), ResourceVersion: fmt.Sprint(revision),
	}}
}

func onNode(name, node string, revision int64) *corev1.Pod {
	p := pod(name, name, revision)
	p.Spec.NodeName = node
	return p
}

func byNode(obj *corev1.Pod) ([]string, error) {
	if obj.Spec.NodeName == "" {
		return nil, nil
	}
	return []string{obj.Spec.NodeName, "any"}, nil
}

func names(objects []*corev1.Pod) []string {
	var found []string
	for _, obj := range objects {
		found = append(found, obj.Name+"@"+obj.ResourceVersion)
	}
	sort.Strings(found)
	return found
}

func TestWritableStore(t *testing.T) {
	newStore := func() store.Store[*corev1.Pod] {
		return store.NewIndexer(keyed, informer.Indexers[*corev1.Pod]{"node": byNode})
	}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	t.Run("item 55: a KeyError wraps and changes nothing", func(t *testing.T) {
		s := newStore()
		for _, err := range []error{s.Add(pod("", "1", 5)), s.Update(pod("", "1", 5)), s.Delete(pod("", "1", 5)), s.Replace([]*corev1.Pod{pod("", "1", 5)}, "9")} {
			if _, ok := errors.AsType[*store.KeyError](err); !ok || !errors.Is(err, errNoKey) {
				t.Errorf("a write without a key returned %v", err)
			}
		}
		if _, _, err := s.Get(pod("", "1", 5)); !errors.Is(err, errNoKey) {
			t.Errorf("Get returned %v", err)
		}
		if len(s.List()) != 0 || s.LastStoreSyncResourceVersion() != "" {
			t.Errorf("the store has %v at %q", s.ListKeys(), s.LastStoreSyncResourceVersion())
		}
	})
	t.Run("item 56: writes of existing and missing objects; Get returns the pointer", func(t *testing.T) {
		s, first, second := newStore(), pod("a", "1", 1), pod("a", "1", 2)
		must(t, s.Delete(pod("a", "1", 1)))
		must(t, s.Update(first))
		must(t, s.Add(second))
		if got, exists, err := s.Get(first); err != nil || !exists || got != second {
			t.Errorf("Get returned %v, %v, %v", got, exists, err)
		}
		s.DeleteByKey("default/a")
		s.DeleteByKey("default/a")
		if _, exists := s.GetByKey("default/a"); exists {
			t.Error("a deleted object is there")
		}
	})
	t.Run("items 57, 61: Replace drops the rest and rebuilds indexes", func(t *testing.T) {
		s := newStore()
		must(t, s.Add(onNode("a", "n1", 1)))
		must(t, s.Replace([]*corev1.Pod{onNode("b", "n2", 2)}, "7"))
		if values := s.ListIndexFuncValues("node"); !slices.Equal(values, []string{"any", "n2"}) {
			t.Errorf("the index has %q", values)
		}
		if v := s.LastStoreSyncResourceVersion(); v != "7" {
			t.Errorf("the version is %q", v)
		}
		if keys := s.ListKeys(); !slices.Equal(keys, []string{"default/b"}) {
			t.Errorf("keys %q", keys)
		}
	})
	t.Run("item 57: no reader sees half of a Replace", func(t *testing.T) {
		s := newStore()
		var running sync.WaitGroup
		running.Go(func() {
			for i := range 200 {
				list := make([]*corev1.Pod, 1+i%2*9)
				for j := range list {
					list[j] = onNode(fmt.Sprint(j), "n1", int64(i))
				}
				must(t, s.Replace(list, fmt.Sprint(i+1)))
			}
		})
		for range 200 {
			found, err := s.ByIndex("node", "n1")
			if err != nil || len(found) != 0 && len(found) != 1 && len(found) != 10 {
				t.Errorf("%d objects, %v", len(found), err)
			}
			if n := len(s.List()); n != 0 && n != 1 && n != 10 {
				t.Errorf("%d objects are listed", n)
			}
		}
		running.Wait()
	})
	t.Run("item 58: lists are the caller's", func(t *testing.T) {
		s := newStore()
		must(t, s.Add(pod("a", "1", 1)))
		s.List()[0] = nil
		s.ListKeys()[0] = ""
		if got := names(s.List()); !slices.Equal(got, []string{"a@1"}) || s.ListKeys()[0] != "default/a" {
			t.Errorf("the store has %q", got)
		}
	})
	t.Run("items 59, 60: Index is a union without doubles", func(t *testing.T) {
		s := newStore()
		for _, obj := range []*corev1.Pod{onNode("a", "n1", 1), onNode("b", "n1", 1), onNode("c", "n2", 1), onNode("d", "", 1)} {
			must(t, s.Add(obj))
		}
		for node, want := range map[string][]string{"n1": {"a@1", "b@1", "c@1"}, "n3": {"a@1", "b@1", "c@1"}, "": nil} {
			found, err := s.Index("node", onNode("x", node, 1)) // under its node and under any
			if err != nil || !slices.Equal(names(found), want) {
				t.Errorf("like a pod on %q: %q, %v; want %q", node, names(found), err, want)
			}
		}
		if found, err := s.Index(informer.NamespaceIndex, pod("x", "1", 1)); err != nil || len(found) != 4 {
			t.Errorf("the namespace has %q, %v", names(found), err)
		}
		for _, err := range []error{second(s.Index("no", pod("a", "1", 1))), second(s.ByIndex("no", "")), second(s.IndexKeys("no", ""))} {
			if err == nil || err.Error() != "Index with name no does not exist" {
				t.Errorf("an unknown index returned %v", err)
			}
		}
		if s.ListIndexFuncValues("no") != nil {
			t.Error("an unknown index has values")
		}
	})
	t.Run("item 60: a failing index function affects only its index", func(t *testing.T) {
		s := newStore()
		must(t, s.AddIndexers(informer.Indexers[*corev1.Pod]{"bad": func(obj *corev1.Pod) ([]string, error) {
			if obj.Name == "panics" {
				panic("no")
			}
			return nil, errNoKey
		}}))
		for _, name := range []string{"panics", "fails"} {
			if _, ok := errors.AsType[*store.IndexError](s.Add(onNode(name, "n1", 1))); !ok {
				t.Errorf("%s: no IndexError", name)
			}
		}
		if found, err := s.ByIndex("node", "n1"); err != nil || len(found) != 2 {
			t.Errorf("the other index has %q, %v", names(found), err)
		}
		must(t, s.Delete(onNode("panics", "n1", 1)))
		if found, err := s.ByIndex("node", "n1"); err != nil || len(found) != 1 {
			t.Errorf("after a delete %q, %v", names(found), err)
		}
	})
	t.Run("item 62: late indexers; a taken name changes nothing", func(t *testing.T) {
		s := newStore()
		must(t, s.Add(onNode("a", "n1", 1)))
		if err := s.AddIndexers(informer.Indexers[*corev1.Pod]{"fresh": byNode, "node": byNode}); err == nil {
			t.Error("no error for a taken name")
		}
		if _, known := s.GetIndexers()["fresh"]; known {
			t.Error("a refused index is there")
		}
		must(t, s.AddIndexers(informer.Indexers[*corev1.Pod]{"fresh": byNode}))
		if keys, err := s.IndexKeys("fresh", "n1"); err != nil || !slices.Equal(keys, []string{"default/a"}) {
			t.Errorf("the late index has %q, %v", keys, err)
		}
		if values, err := s.GetIndexers()[informer.NamespaceIndex](pod("a", "1", 1)); err != nil || !slices.Equal(values, []string{"default"}) {
			t.Errorf("the namespace index returned %q, %v", values, err)
		}
	})
	t.Run("items 61, 63: many values, few values, doubles", func(t *testing.T) {
		s := store.NewIndexer(keyed, informer.Indexers[*corev1.Pod]{"labels": func(obj *corev1.Pod) ([]string, error) {
			return []string{obj.Labels["x"], obj.Labels["x"], "all"}, nil
		}})
		labelled := func(i int, value string) *corev1.Pod {
			p := pod(fmt.Sprint(i), fmt.Sprint(i), int64(i+1))
			p.Labels = map[string]string{"x": value}
			return p
		}
		for i := range 30 { // more than a small set holds, and back
			must(t, s.Add(labelled(i, "old")))
			must(t, s.Add(labelled(i, "old")))
		}
		for i := range 30 {
			must(t, s.Update(labelled(i, "new")))
			if keys, err := s.IndexKeys("labels", "old"); err != nil || len(keys) != 29-i {
				t.Fatalf("%d keys under the old value, %v; want %d", len(keys), err, 29-i)
			}
		}
		if values := s.ListIndexFuncValues("labels"); !slices.Equal(values, []string{"all", "new"}) {
			t.Errorf("values %q", values)
		}
		for i := range 30 {
			must(t, s.Delete(labelled(i, "new")))
		}
		if values := s.ListIndexFuncValues("labels"); len(values) != 0 {
			t.Errorf("values %q in an empty store", values)
		}
	})
	t.Run("a changed object leaves no ghost in an index", func(t *testing.T) {
		s, a := newStore(), onNode("a", "n1", 1)
		must(t, s.Add(a))
		a.Spec.NodeName = "n2" // a forbidden change
		must(t, s.Delete(a))
		if found, err := s.ByIndex("node", "n1"); err != nil || len(found) != 0 {
			t.Errorf("the index shows %q, %v", names(found), err)
		}
	})
	t.Run("item 64: a bad key fails only its entry", func(t *testing.T) {
		s := newStore()
		must(t, s.Add(pod("gone", "9", 1)))
		err := s.Transaction(
			store.Transaction[*corev1.Pod]{Type: store.TransactionTypeAdd, Object: pod("a", "1", 2)},
			store.Transaction[*corev1.Pod]{Type: store.TransactionTypeUpdate, Object: pod("", "2", 3)},
			store.Transaction[*corev1.Pod]{Type: store.TransactionTypeDelete, Object: pod("gone", "9", 4)},
			store.Transaction[*corev1.Pod]{Type: "Other", Object: pod("a", "1", 5)},
		)
		if err == nil || !slices.Equal(err.SuccessfulIndices, []int{0, 2}) || err.TotalTransactions != 4 || len(err.Errors) != 2 || !errors.Is(err, errNoKey) {
			t.Fatalf("the error is %+v", err)
		}
		if got := names(s.List()); !slices.Equal(got, []string{"a@2"}) || s.LastStoreSyncResourceVersion() != "4" {
			t.Errorf("the store has %q at %q", got, s.LastStoreSyncResourceVersion())
		}
		if err := s.Transaction(store.Transaction[*corev1.Pod]{Type: store.TransactionTypeDelete, Object: pod("a", "1", 6)}); err != nil {
			t.Errorf("a good transaction returned %v", err)
		}
	})
	t.Run("item 65: what moves the version", func(t *testing.T) {
		s := newStore()
		at := func(want string) {
			t.Helper()
			if got := s.LastStoreSyncResourceVersion(); got != want {
				t.Errorf("the version is %q, want %q", got, want)
			}
		}
		at("")
		must(t, s.Add(pod("a", "1", 1)))
		at("1")
		must(t, s.Update(pod("a", "1", 2)))
		at("2")
		must(t, s.Delete(pod("a", "1", 3)))
		at("3")
		s.Bookmark("4")
		at("4")
		must(t, s.Add(pod("b", "1", 5)))
		s.DeleteByKey("default/b")
		at("5")
		must(t, s.Replace(nil, "6"))
		at("6")
		s.Bookmark("nonsense")
		at("6")
	})
	t.Run("item 67: the transformer's result is stored, its error fails the write", func(t *testing.T) {
		s := store.New(keyed, store.WithTransformer(func(obj *corev1.Pod) (*corev1.Pod, error) {
			if obj.Name == "bad" {
				return nil, errors.New("no")
			}
			marked := obj.DeepCopy()
			marked.Labels = map[string]string{"marked": "yes"}
			return marked, nil
		}))
		must(t, s.Add(pod("a", "1", 1)))
		must(t, s.Update(pod("b", "1", 1)))
		for _, obj := range s.List() {
			if obj.Labels["marked"] != "yes" {
				t.Errorf("%s was not transformed", obj.Name)
			}
		}
		for _, err := range []error{s.Add(pod("bad", "1", 9)), s.Update(pod("bad", "1", 9)), s.Replace([]*corev1.Pod{pod("bad", "1", 9)}, "9")} {
			if err == nil {
				t.Error("no error from a failing transformer")
			}
		}
		if len(s.List()) != 2 {
			t.Errorf("the store has %q", names(s.List()))
		}
		must(t, s.Replace([]*corev1.Pod{pod("c", "1", 9)}, "9"))
		if got, _ := s.GetByKey("default/c"); got.Labels["marked"] != "yes" {
			t.Error("Replace does not transform")
		}
	})
}

func second[A any](_ A, err error) error { return err }
