package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// post carries a replica's calls, records how it writes, and can hold its writes back.
type post struct {
	client.Interface
	mu      sync.Mutex
	fenced  map[string]int // by resource
	bare    []string
	refused int
	release chan struct{} // nil unless writes are held back
}

func (p *post) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	if !call.Writes() {
		return p.Interface.Do(ctx, call, into)
	}
	_, fenced := fence.From(ctx)
	p.mu.Lock()
	if fenced {
		p.fenced[call.Kind.Resource]++
	} else {
		p.bare = append(p.bare, fmt.Sprintf("%s %s/%s", call.Verb, call.Kind.Resource, call.Subresource))
	}
	release := p.release
	p.mu.Unlock()
	if release != nil {
		// A write in flight arrives whether or not its caller still waits.
		<-release
		ctx = context.WithoutCancel(ctx)
	}
	err := p.Interface.Do(ctx, call, into)
	if fence.IsLost(err) {
		p.mu.Lock()
		p.refused++
		p.mu.Unlock()
	}
	return err
}

// posted runs a replica whose calls go through a post.
func posted(t *testing.T, p *controltest.Plane, identity string) (through *post, stop func()) {
	t.Helper()
	cfg := config()
	cfg.Service.Identity = identity
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	through = &post{Interface: p.Client, fenced: map[string]int{}}
	s.shell.Use(through, listwatch.New(p.Client, cfg.Service.Logger))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return through, func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("replica %s: %v", identity, err)
		}
	}
}

// TestEveryWriteIsFenced checks that every write of the controllers carries their fence, except
// writes of the Lease itself and of Events.
func TestEveryWriteIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		p.Add(p.RunPods)
		p.Start()
		through, stop := posted(t, p, "one")
		for _, name := range []string{"default", "short"} {
			controltest.Create(p, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}}})
		}
		controltest.Create(p, aDeployment("web", 3))
		controltest.Create(p, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "short", Name: "content"}})
		controltest.Create(p, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "q"}, Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")},
		}})
		time.Sleep(30 * time.Second)
		if err := client.Of[*corev1.Namespace](p.Client).Delete(t.Context(), "", "short", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		controltest.Change(p, "default", "web", func(d *appsv1.Deployment) { *d.Spec.Replicas = 1 })
		time.Sleep(30 * time.Second)
		p.Remove(controltest.Get[*appsv1.Deployment](p, "default", "web"))
		time.Sleep(30 * time.Second)
		stop()
		for _, name := range []string{"deployments", "replicasets", "pods", "serviceaccounts", "configmaps", "resourcequotas", "namespaces"} {
			if through.fenced[name] == 0 {
				t.Errorf("no %s were written with a fence: %v", name, through.fenced)
			}
		}
		for _, write := range slices.Compact(slices.Sorted(slices.Values(through.bare))) {
			if write != "create leases/" && write != "update leases/" && write != "create events/" && write != "patch events/" {
				t.Errorf("written without a fence: %s", write)
			}
		}
		if through.refused != 0 {
			t.Errorf("got %d refused writes, want none", through.refused)
		}
	})
}

// TestStoppedReplicaComesBack checks a replica that is stopped with writes in flight, and resumes
// after another has taken over: it writes nothing more, and then stands by.
func TestStoppedReplicaComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		p.Add(p.RunPods)
		p.Start()
		first, stopOne := posted(t, p, "one")
		defer stopOne()
		time.Sleep(5 * time.Second)
		_, stopTwo := posted(t, p, "two")
		defer stopTwo()
		time.Sleep(5 * time.Second)
		release := make(chan struct{})
		first.mu.Lock()
		first.release = release
		first.mu.Unlock()
		controltest.Create(p, aDeployment("web", 3))
		time.Sleep(time.Minute)
		holder := func() string {
			return *controltest.Get[*coordinationv1.Lease](p, "kube-system", "kube-controller-manager").Spec.HolderIdentity
		}
		made := func() (pods, sets int) {
			return len(controltest.List[*corev1.Pod](p)), len(controltest.List[*appsv1.ReplicaSet](p))
		}
		if pods, sets := made(); holder() != "two" || pods != 3 || sets != 1 {
			t.Fatalf("got leader %s; %d pods of %d sets", holder(), pods, sets)
		}
		first.mu.Lock()
		first.release = nil
		first.mu.Unlock()
		close(release)
		time.Sleep(time.Minute)
		if pods, sets := made(); holder() != "two" || pods != 3 || sets != 1 {
			t.Errorf("got leader %s; %d pods of %d sets", holder(), pods, sets)
		}
		first.mu.Lock()
		defer first.mu.Unlock()
		if first.refused == 0 {
			t.Error("no write of the first replica was refused")
		}
	})
}
