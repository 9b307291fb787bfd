// Package informer_test compares libs/informer with client-go's tools/cache on the same workload:
// use benchstat -col /impl.
package informer_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/store"
	"github.com/garboard/garboard/libs/scheme"
)

// makePods creates pods like those of a cluster of 1,000 nodes: 100 namespaces, 3 pods per owner.
func makePods(count int) []*corev1.Pod {
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		controller := true
		pods[i] = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: fmt.Sprint("namespace-", i%100), Name: fmt.Sprint("pod-", i), UID: types.UID(fmt.Sprint("uid-", i)),
				ResourceVersion: strconv.Itoa(i + 1), Labels: map[string]string{"app": fmt.Sprint("app-", i/3)},
				OwnerReferences: []metav1.OwnerReference{{UID: types.UID(fmt.Sprint("owner-", i/3)), Controller: &controller}},
			},
			Spec: corev1.PodSpec{NodeName: fmt.Sprint("node-", i%1000)},
		}
	}
	return pods
}

func byNode(pod *corev1.Pod) ([]string, error) { return []string{pod.Spec.NodeName}, nil }

func byOwner(pod *corev1.Pod) ([]string, error) {
	if len(pod.OwnerReferences) == 0 {
		return nil, nil
	}
	return []string{string(pod.OwnerReferences[0].UID)}, nil
}

// indexed is a store with three indexes.
type indexed interface {
	replace(pods []*corev1.Pod)
	update(pod *corev1.Pod)
	byIndex(index, value string) int
}

type ours struct{ store.Store[*corev1.Pod] }

func newOurs() indexed {
	return ours{store.NewIndexer(store.MetaNamespaceKeyFunc[*corev1.Pod], informer.Indexers[*corev1.Pod]{"node": byNode, "owner": byOwner})}
}

func (o ours) replace(pods []*corev1.Pod) {
	if err := o.Replace(pods, "1"); err != nil {
		panic(err)
	}
}

func (o ours) update(pod *corev1.Pod) {
	if err := o.Update(pod); err != nil {
		panic(err)
	}
}

func (o ours) byIndex(index, value string) int {
	found, err := o.ByIndex(index, value)
	if err != nil {
		panic(err)
	}
	return len(found)
}

type theirs struct{ cache.Indexer }

func newTheirs() indexed {
	return theirs{cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		"node":               func(obj any) ([]string, error) { return byNode(obj.(*corev1.Pod)) },
		"owner":              func(obj any) ([]string, error) { return byOwner(obj.(*corev1.Pod)) },
	})}
}

func (s theirs) replace(pods []*corev1.Pod) {
	list := make([]any, len(pods))
	for i, pod := range pods {
		list[i] = pod
	}
	if err := s.Replace(list, "1"); err != nil {
		panic(err)
	}
}

func (s theirs) update(pod *corev1.Pod) {
	if err := s.Update(pod); err != nil {
		panic(err)
	}
}

// byIndex creates typed objects, which every user of an index needs.
func (s theirs) byIndex(index, value string) int {
	found, err := s.ByIndex(index, value)
	if err != nil {
		panic(err)
	}
	pods := make([]*corev1.Pod, 0, len(found))
	for _, obj := range found {
		pods = append(pods, obj.(*corev1.Pod))
	}
	return len(pods)
}

var implementations = []struct {
	name string
	make func() indexed
}{{"garboard", newOurs}, {"client-go", newTheirs}}

const objects = 100_000

// BenchmarkIndexer measures a store with three indexes and 100,000 objects: filling it, updating an
// object so that it moves in one index, and reading by each index.
func BenchmarkIndexer(b *testing.B) {
	pods := makePods(objects)
	moved := makePods(objects)
	for i, pod := range moved {
		pod.Spec.NodeName = fmt.Sprint("node-", (i+1)%1000)
	}
	for _, impl := range implementations {
		b.Run("op=build/impl="+impl.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				// The store takes ownership of the slice.
				impl.make().replace(append([]*corev1.Pod{}, pods...))
			}
		})
		b.Run("op=add/impl="+impl.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				store := impl.make()
				for _, pod := range pods {
					store.update(pod)
				}
			}
		})
		b.Run("op=update/impl="+impl.name, func(b *testing.B) {
			store := impl.make()
			store.replace(append([]*corev1.Pod{}, pods...))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if i/objects%2 == 0 {
					store.update(moved[i%objects])
				} else {
					store.update(pods[i%objects])
				}
				i++
			}
		})
		for _, query := range []string{"node", "owner", "namespace"} {
			b.Run("op=query-"+query+"/impl="+impl.name, func(b *testing.B) {
				store := impl.make()
				store.replace(append([]*corev1.Pod{}, pods...))
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					switch query {
					case "node":
						store.byIndex("node", pods[i%objects].Spec.NodeName)
					case "owner":
						store.byIndex("owner", string(pods[i%objects].OwnerReferences[0].UID))
					default:
						store.byIndex("namespace", pods[i%objects].Namespace)
					}
					i++
				}
			})
		}
	}
}

// BenchmarkBytesPerObject measures the memory that a store with three indexes uses per object,
// beyond the object itself. Only B/object is meaningful.
func BenchmarkBytesPerObject(b *testing.B) {
	pods := makePods(objects)
	for _, impl := range implementations {
		b.Run("impl="+impl.name, func(b *testing.B) {
			for b.Loop() {
				list := append([]*corev1.Pod{}, pods...)
				before := heap()
				store := impl.make()
				store.replace(list)
				list = nil
				after := heap()
				b.ReportMetric(float64(int64(after)-int64(before)+8*objects)/objects, "B/object")
				runtime.KeepAlive(store)
				runtime.KeepAlive(list)
			}
		})
	}
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// feed is a Source whose follower runs a script.
type feed struct{ script func(informer.Sink) }

type feeder struct {
	informer.FollowerDefaults
	script func(informer.Sink)
	sink   informer.Sink
}

func (f feed) Follower(_ *scheme.Kind, _ informer.View, sink informer.Sink) informer.Follower {
	return feeder{script: f.script, sink: sink}
}

func (f feeder) Run(ctx context.Context) error {
	f.script(f.sink)
	<-ctx.Done()
	return nil
}

// changes is the number of updates per operation.
const changes = 20_000

// BenchmarkHandlers measures the path from the follower, or from a reflector's watch, to handlers:
// 1,000 objects and 20,000 single updates, each delivered to every handler.
func BenchmarkHandlers(b *testing.B) {
	const known = 1000
	pods := makePods(known)
	updates := make([]*corev1.Pod, changes)
	for i := range updates {
		updates[i] = pods[i%known].DeepCopy()
		updates[i].ResourceVersion = strconv.Itoa(known + 1 + i)
	}
	for _, handlers := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("handlers=%d/impl=garboard", handlers), func(b *testing.B) {
			table := scheme.New()
			b.ReportAllocs()
			for b.Loop() {
				oneRunOfOurs(b, table, pods, updates, handlers)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*changes), "ns/change")
		})
		b.Run(fmt.Sprintf("handlers=%d/impl=client-go", handlers), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				oneRunOfTheirs(b, pods, updates, handlers)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*changes), "ns/change")
		})
	}
}

func oneRunOfOurs(b *testing.B, table *scheme.Table, pods, updates []*corev1.Pod, handlers int) {
	var delivered sync.WaitGroup
	delivered.Add(handlers)
	script := func(sink informer.Sink) {
		list := make([]informer.Object, len(pods))
		for i, pod := range pods {
			list[i] = pod
		}
		sink.Replace(fabric.Position{Revision: int64(len(pods))}, list)
		for i, pod := range updates {
			sink.Apply([]informer.Change{{
				Revision: int64(len(pods) + 1 + i), Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Object: pod,
			}}, int64(len(pods)+1+i))
		}
	}
	shared := informer.NewSharedInformer[*corev1.Pod](informer.Config{
		Source: feed{script}, Table: table, Logger: slog.New(slog.DiscardHandler), Backlog: -1,
	}, informer.View{})
	for range handlers {
		var n atomic.Int64
		if _, err := shared.AddEventHandler(informer.ResourceEventHandlerFuncs[*corev1.Pod]{
			UpdateFunc: func(_, _ *corev1.Pod) {
				if n.Add(1) == changes {
					delivered.Done()
				}
			},
		}); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- shared.Run(ctx) }()
	delivered.Wait()
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

func oneRunOfTheirs(b *testing.B, pods, updates []*corev1.Pod, handlers int) {
	var delivered sync.WaitGroup
	delivered.Add(handlers)
	events := make(chan watch.Event, 100)
	go func() {
		for _, pod := range updates {
			events <- watch.Event{Type: watch.Modified, Object: pod}
		}
	}()
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(len(pods))}}
	for _, pod := range pods {
		list.Items = append(list.Items, *pod)
	}
	shared := cache.NewSharedIndexInformer(noWatchList{&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (kruntime.Object, error) { return list, nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.NewProxyWatcher(events), nil
		},
	}}, &corev1.Pod{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for range handlers {
		var n atomic.Int64
		if _, err := shared.AddEventHandler(cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(_, _ any) {
				if n.Add(1) == changes {
					delivered.Done()
				}
			},
		}); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); shared.RunWithContext(ctx) }()
	delivered.Wait()
	cancel()
	<-ended
}

// noWatchList reports that the server cannot stream the initial list, so that the reflector lists.
type noWatchList struct{ *cache.ListWatch }

func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }
