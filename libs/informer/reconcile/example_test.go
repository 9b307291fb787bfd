package reconcile_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/scheme"
)

// greeter gives every namespace a config map that greets it.
type greeter struct {
	namespaces informer.Lister[*corev1.Namespace]
	maps       informer.Lister[*corev1.ConfigMap]
	write      client.Resource[*corev1.ConfigMap]
}

// reconcile reads from the caches what is, compares it with what should be, and writes.
func (g *greeter) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	if _, err := g.namespaces.Get(key); apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil // Gone, and its config map with it.
	}
	if _, err := g.maps.Namespace(key).Get("greeting"); err == nil {
		return reconcile.Result{}, nil
	}
	greeting := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: key, Name: "greeting"},
		Data:       map[string]string{"text": "hello, " + key},
	}
	_, err := g.write.Create(ctx, greeting, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return reconcile.Result{}, nil // The cache is a little behind our own write.
	}
	return reconcile.Result{}, err // An error has the key tried again, later and later.
}

// A whole controller, on an API in memory.
func Example() {
	api := fake.New(scheme.New(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}})
	factory := informer.NewFactory(informer.FactoryConfig{Source: listwatch.New(api, nil), Table: api.Table()})
	namespaces, maps := informer.For[*corev1.Namespace](factory), informer.For[*corev1.ConfigMap](factory)
	g := &greeter{namespaces: namespaces.Lister(), maps: maps.Lister(), write: client.Of[*corev1.ConfigMap](api)}

	var controller *reconcile.Controller[string]
	enqueue := func(key string) { controller.Enqueue(key) }
	registration, err := namespaces.AddEventHandler(reconcile.EnqueueObject[*corev1.Namespace](enqueue))
	if err != nil {
		fmt.Println(err)
		return
	}
	controller = reconcile.New(reconcile.Config[string]{
		Name: "greeter", Resource: "namespaces", Workers: 2, Reconcile: g.reconcile,
		Synced: []func() bool{registration.HasSynced, maps.HasSynced},
	})

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) //nolint:forbidigo // an example has no testing.T
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{factory.Run, controller.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				fmt.Println(err)
			}
		})
	}
	_, err = maps.AddEventHandler(informer.ResourceEventHandlerFuncs[*corev1.ConfigMap]{
		AddFunc: func(m *corev1.ConfigMap, _ bool) {
			fmt.Println(m.Data["text"])
			cancel()
		},
	})
	if err != nil {
		fmt.Println(err)
	}
	running.Wait()
	// Output: hello, team-a
}
