package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
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
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	for _, add := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandlerFuncs
	}{
		{factory.Core().V1().Pods().Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc: c.apply, UpdateFunc: func(_, now any) { c.apply(now) }, DeleteFunc: c.drop,
		}},
		{factory.Apps().V1().ReplicaSets().Informer(), cache.ResourceEventHandlerFuncs{
			AddFunc: c.apply, UpdateFunc: func(_, now any) { c.apply(now) },
		}},
	} {
		// An informer that has not started accepts every handler.
		_, _ = add.informer.AddEventHandler(add.handler)
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
}

func (c *census) apply(obj any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch o := obj.(type) {
	case *appsv1.ReplicaSet:
		c.asked[o.UID], c.names[o.UID] = max(c.asked[o.UID], int(*o.Spec.Replicas)), o.Name
	case *corev1.Pod:
		c.count(o, active(o))
	}
}

func (c *census) drop(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.count(pod, false)
	}
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
