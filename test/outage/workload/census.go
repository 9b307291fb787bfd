package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// census counts the pods of each replica set while they change. If a replica set ever had more pods
// than requested, a controller acted twice.
type census struct {
	mu    sync.Mutex
	alive map[types.UID]map[types.UID]bool // owner -> its pods
	most  map[types.UID]int                // maximum number at once
	asked map[types.UID]int                // maximum number requested
	names map[types.UID]string
}

func newCensus() *census {
	return &census{
		alive: map[types.UID]map[types.UID]bool{}, most: map[types.UID]int{}, asked: map[types.UID]int{}, names: map[types.UID]string{},
	}
}

// follow counts until ctx ends.
func (c *census) follow(ctx context.Context, client kubernetes.Interface, namespace string) {
	var reflectors sync.WaitGroup
	defer reflectors.Wait()
	for resource, of := range map[string]struct {
		client cache.Getter
		kind   any
	}{
		"pods":        {client.CoreV1().RESTClient(), &corev1.Pod{}},
		"replicasets": {client.AppsV1().RESTClient(), &appsv1.ReplicaSet{}},
	} {
		source := cache.NewListWatchFromClient(of.client, resource, namespace, fields.Everything())
		reflector := cache.NewReflectorWithOptions(source, of.kind, view{c, resource == "pods"}, cache.ReflectorOptions{})
		reflectors.Go(func() { reflector.RunWithContext(ctx) })
	}
}

// view receives the objects of one kind from a reflector. An informer would not do: when it lists
// again, it shows new pods before it says which ones are gone.
type view struct {
	*census
	pods bool
}

var _ cache.ReflectorStore = view{}

// Add counts an object.
func (v view) Add(obj any) error { return v.apply(obj) }

// Update counts an object's new state.
func (v view) Update(obj any) error { return v.apply(obj) }

// Delete stops counting an object.
func (v view) Delete(obj any) error {
	if pod, ok := obj.(*corev1.Pod); ok {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.count(pod, false)
	}
	return nil
}

// Replace counts the objects of a list, and no others of their kind.
func (v view) Replace(objs []any, _ string) error {
	if v.pods {
		v.forget(objs)
	}
	for _, obj := range objs {
		if err := v.apply(obj); err != nil {
			return err
		}
	}
	return nil
}

// forget stops counting all pods but some.
func (c *census) forget(but []any) {
	kept := map[types.UID]bool{}
	for _, obj := range but {
		if pod, ok := obj.(*corev1.Pod); ok {
			kept[pod.UID] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, alive := range c.alive {
		maps.DeleteFunc(alive, func(uid types.UID, _ bool) bool { return !kept[uid] })
	}
}

// Resync does nothing: a reflector calls it only if it is asked to.
func (view) Resync() error { return nil }

func (c *census) apply(obj any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch o := obj.(type) {
	case *appsv1.ReplicaSet:
		c.asked[o.UID], c.names[o.UID] = max(c.asked[o.UID], int(*o.Spec.Replicas)), o.Name
	case *corev1.Pod:
		c.count(o, active(o))
	default:
		return fmt.Errorf("counting a %T: neither a pod nor a replica set", obj)
	}
	return nil
}

func (c *census) count(pod *corev1.Pod, alive bool) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return
	}
	pods := c.alive[owner.UID]
	if pods == nil {
		pods = map[types.UID]bool{}
		c.alive[owner.UID] = pods
	}
	if alive {
		pods[pod.UID] = true
	} else {
		delete(pods, pod.UID)
	}
	c.most[owner.UID] = max(c.most[owner.UID], len(pods))
}

func (c *census) check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var faults []error
	for owner, most := range c.most {
		if asked, seen := c.asked[owner]; seen && most > asked {
			faults = append(faults, fmt.Errorf("replica set %s had %d pods at once, but at most %d were requested", c.names[owner], most, asked))
		}
	}
	return errors.Join(faults...)
}
