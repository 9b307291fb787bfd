package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// maxChronicle bounds what is kept of a replica set to be told with a fault.
const maxChronicle = 40

// census counts the pods of each replica set while they change. If a replica set ever had more pods
// than requested, a controller acted twice.
type census struct {
	mu     sync.Mutex
	sets   map[types.UID]*tally // by owner
	listed bool                 // the sets, at least once
}

// tally is what was seen of one replica set and its pods.
type tally struct {
	name  string
	seen  bool // the set itself, and not only pods
	alive map[types.UID]bool
	most  int // maximum number of pods at once
	asked int // maximum number requested
	// blind means that states of the set may have been missed, so that asked may be too small.
	blind     bool
	chronicle []string
}

func newCensus() *census { return &census{sets: map[types.UID]*tally{}} }

// follow counts until ctx ends.
func (c *census) follow(ctx context.Context, client kubernetes.Interface, namespace string) {
	pods := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", namespace, fields.Everything())
	sets := cache.NewListWatchFromClient(client.AppsV1().RESTClient(), "replicasets", namespace, fields.Everything())
	var both sync.WaitGroup
	both.Go(func() { every(ctx, pods, c.listPods, c.apply) })
	both.Go(func() { every(ctx, sets, c.listSets, c.apply) })
	both.Wait()
}

func (c *census) tally(owner types.UID) *tally {
	one := c.sets[owner]
	if one == nil {
		one = &tally{alive: map[types.UID]bool{}}
		c.sets[owner] = one
	}
	return one
}

// listPods counts the pods of a list, and no others.
func (c *census) listPods(pods []any) error {
	kept := map[types.UID]bool{}
	for _, obj := range pods {
		if pod, ok := obj.(*corev1.Pod); ok {
			kept[pod.UID] = true
		}
	}
	c.mu.Lock()
	for _, one := range c.sets {
		maps.DeleteFunc(one.alive, func(uid types.UID, _ bool) bool { return !kept[uid] })
		one.tell("pods are listed")
	}
	c.mu.Unlock()
	return c.applyAll(pods)
}

// listSets counts the replica sets of a list. If it is not the first, what they, and those that are gone,
// requested before is unknown.
func (c *census) listSets(sets []any) error {
	err := c.applyAll(sets)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.sets {
		one.blind = one.blind || c.listed
	}
	c.listed = true
	return err
}

func (c *census) applyAll(objs []any) error {
	for _, obj := range objs {
		if err := c.apply(watch.Added, obj); err != nil {
			return err
		}
	}
	return nil
}

// apply counts an object's new state.
func (c *census) apply(event watch.EventType, obj any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch o := obj.(type) {
	case *appsv1.ReplicaSet:
		one := c.tally(o.UID)
		if one.name, one.seen = o.Name, true; event != watch.Deleted {
			one.asked = max(one.asked, int(*o.Spec.Replicas))
		}
		one.tell("%s at %s, %d requested", event, o.ResourceVersion, *o.Spec.Replicas)
	case *corev1.Pod:
		if owner := metav1.GetControllerOf(o); owner != nil {
			c.tally(owner.UID).count(o, event != watch.Deleted && active(o))
		}
	default:
		return fmt.Errorf("counting a %T: neither a pod nor a replica set", obj)
	}
	return nil
}

func (t *tally) count(pod *corev1.Pod, alive bool) {
	if t.alive[pod.UID] == alive {
		return
	}
	if alive {
		t.alive[pod.UID] = true
	} else {
		delete(t.alive, pod.UID)
	}
	t.most = max(t.most, len(t.alive))
	t.tell("pod %s at %s, alive: %t, now %d", pod.Name, pod.ResourceVersion, alive, len(t.alive))
}

// tell remembers what has happened.
func (t *tally) tell(format string, args ...any) {
	if len(t.chronicle) == maxChronicle {
		t.chronicle = t.chronicle[1:]
	}
	t.chronicle = append(t.chronicle, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (c *census) check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var faults []error
	for _, one := range c.sets {
		if one.seen && !one.blind && one.most > one.asked {
			faults = append(faults, fmt.Errorf("replica set %s had %d pods at once, but at most %d were requested; the last that was seen of it:\n\t%s",
				one.name, one.most, one.asked, strings.Join(one.chronicle, "\n\t")))
		}
	}
	return errors.Join(faults...)
}
