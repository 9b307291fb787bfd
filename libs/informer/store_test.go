package informer_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
)

func byNode(obj *corev1.Pod) ([]string, error) {
	if obj.Spec.NodeName == "" {
		return nil, nil
	}
	return []string{obj.Spec.NodeName, "any"}, nil
}

func onNode(name, node string, revision int64) *corev1.Pod {
	p := pod(name, name, revision)
	p.Spec.NodeName = node
	return p
}

// TestIndexes covers checklist E59 to E62.
func TestIndexes(t *testing.T) {
	p := prepare()
	p.sink.Replace(fabric.Position{Revision: 1}, []informer.Object{onNode("a", "n1", 1), onNode("b", "", 1)})
	indexers := informer.Indexers[*corev1.Pod]{"node": byNode}
	if err := p.AddIndexers(indexers); err != nil { // late: existing objects are indexed
		t.Fatal(err)
	}
	if err := p.AddIndexers(informer.Indexers[*corev1.Pod]{"fresh": byNode, "node": byNode}); err == nil {
		t.Error("no error for an index name that is taken")
	}
	if _, err := p.Indexer().ByIndex("fresh", "n1"); err == nil || err.Error() != "Index with name fresh does not exist" {
		t.Errorf("an unknown index returned %v", err)
	}
	keys := func(value string, want ...string) {
		t.Helper()
		got, err := p.Indexer().IndexKeys("node", value)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("keys under %q: %q, %v; want %q", value, got, err, want)
		}
	}
	keys("n1", "default/a")
	keys("any", "default/a")
	p.sink.Apply([]informer.Change{put(onNode("b", "n1", 2))}, 2)
	keys("n1", "default/a", "default/b")
	p.sink.Apply([]informer.Change{put(onNode("a", "n2", 3))}, 3)
	keys("n1", "default/b")
	keys("n2", "default/a")
	p.sink.Apply([]informer.Change{del(onNode("b", "n1", 2), 4)}, 4)
	keys("n1")
	keys("any", "default/a")
	p.sink.Replace(fabric.Position{Revision: 5}, nil)
	keys("any")
}

// TestFailingIndexFunction checks that an index function that fails or panics costs only that
// object's place in that index.
func TestFailingIndexFunction(t *testing.T) {
	p := prepare()
	if err := p.AddIndexers(informer.Indexers[*corev1.Pod]{"bad": func(obj *corev1.Pod) ([]string, error) {
		switch obj.Name {
		case "panics":
			panic("no")
		case "fails":
			return nil, errors.New("no")
		}
		return []string{"x"}, nil
	}}); err != nil {
		t.Fatal(err)
	}
	p.sink.Replace(fabric.Position{Revision: 1}, []informer.Object{pod("panics", "1", 1), pod("fails", "2", 1), pod("good", "3", 1)})
	if n := len(p.Indexer().List()); n != 3 {
		t.Errorf("%d objects are stored, want 3", n)
	}
	if got, err := p.Indexer().IndexKeys("bad", "x"); err != nil || !slices.Equal(got, []string{"default/good"}) {
		t.Errorf("the index has %q, %v", got, err)
	}
	if got, err := p.Indexer().IndexKeys(informer.NamespaceIndex, "default"); err != nil || len(got) != 3 {
		t.Errorf("the other index has %q, %v", got, err)
	}
}

// TestStoreAgainstAModel checks that after any sequence of statements, store and indexes equal a
// plain map.
func TestStoreAgainstAModel(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 2))
		p := prepare()
		if err := p.AddIndexers(informer.Indexers[*corev1.Pod]{"node": byNode}); err != nil {
			t.Fatal(err)
		}
		model := map[string]*corev1.Pod{}
		p.sink.Replace(fabric.Position{Revision: 1}, nil)
		for revision := int64(2); revision < 200; revision++ {
			obj := onNode(fmt.Sprint("p", random.IntN(8)), []string{"", "n1", "n2"}[random.IntN(3)], revision)
			switch random.IntN(10) {
			case 0:
				clear(model)
				var objects []informer.Object
				for i := range random.IntN(8) {
					o := onNode(fmt.Sprint("p", i), "n1", revision)
					model["default/"+o.Name] = o
					objects = append(objects, o)
				}
				p.sink.Replace(fabric.Position{Revision: revision}, objects)
			case 1, 2, 3:
				delete(model, "default/"+obj.Name)
				p.sink.Apply([]informer.Change{del(obj, revision)}, revision)
			default:
				model["default/"+obj.Name] = obj
				p.sink.Apply([]informer.Change{put(obj)}, revision)
			}
			check(t, p, model, seed)
		}
	}
}

func check(t *testing.T, p *pods, model map[string]*corev1.Pod, seed uint64) {
	t.Helper()
	want := map[string][]string{}
	for key, obj := range model {
		values, _ := byNode(obj)
		for _, value := range values {
			want[value] = append(want[value], key)
		}
		if got, exists := p.Indexer().GetByKey(key); !exists || got != obj {
			t.Fatalf("seed %d: %s is %v", seed, key, got)
		}
	}
	if n := len(p.Indexer().ListKeys()); n != len(model) {
		t.Fatalf("seed %d: %d keys, want %d", seed, n, len(model))
	}
	for _, value := range []string{"n1", "n2", "any"} {
		sort.Strings(want[value])
		if got, err := p.Indexer().IndexKeys("node", value); err != nil || !slices.Equal(got, want[value]) {
			t.Fatalf("seed %d: index %s has %q, want %q", seed, value, got, want[value])
		}
	}
}

// TestKeys covers checklist E53.
func TestKeys(t *testing.T) {
	for _, tt := range []struct {
		key, namespace, name string
		fails                bool
	}{
		{"a", "", "a", false}, {"ns/a", "ns", "a", false}, {"a/b/c", "", "", true}, {"", "", "", false},
	} {
		namespace, name, err := informer.SplitMetaNamespaceKey(tt.key)
		if namespace != tt.namespace || name != tt.name || (err != nil) != tt.fails {
			t.Errorf("%q returned %q, %q, %v", tt.key, namespace, name, err)
		}
		if err == nil && informer.KeyOf(namespace, name) != tt.key {
			t.Errorf("%q does not survive the round trip", tt.key)
		}
	}
}
