package reconcile_test

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
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

// greeter creates a config map with a greeting in every namespace.
type greeter struct {
	namespaces informer.Lister[*corev1.Namespace]
	maps       informer.Lister[*corev1.ConfigMap]
	write      client.Resource[*corev1.ConfigMap]
}

// reconcile reads the actual state from the caches, compares it with the desired one, and writes.
func (g *greeter) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	if _, err := g.namespaces.Get(key); apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil // It is gone, and its config map with it.
	}
	if _, err := g.maps.Namespace(key).Get("greeting"); err == nil {
		return reconcile.Result{}, nil
	}
	_, err := g.write.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: key, Name: "greeting"}, Data: map[string]string{"text": "hello, " + key},
	}, metav1.CreateOptions{})
	return reconcile.Result{}, err // After an error the key is retried, with growing delays.
}

// run is a complete controller: it runs until ctx ends.
func run(ctx context.Context, api client.Interface, source informer.Source) error {
	factory := informer.NewFactory(informer.FactoryConfig{Source: source, Table: api.Table()})
	namespaces, maps := informer.For[*corev1.Namespace](factory), informer.For[*corev1.ConfigMap](factory)
	g := &greeter{
		namespaces: namespaces.Lister(), maps: maps.Lister(),
		// The controller remembers these writes by key...
		write: client.Of[*corev1.ConfigMap](reconcile.Recording(api)),
	}
	// ... and a key waits until this cache shows the last write for it.
	var reads reconcile.Caches
	reconcile.Reads(&reads, maps)
	var registration informer.Registration
	controller := reconcile.New(reconcile.Config[string]{
		Name: "greeter", Resource: "namespaces", Workers: 2, Reconcile: g.reconcile, Reads: &reads,
		WaitFor: func() []informer.DoneChecker {
			return []informer.DoneChecker{registration.HasSyncedChecker(), maps.HasSyncedChecker()}
		},
	})
	registration, err := namespaces.AddEventHandler(reconcile.EnqueueObject[*corev1.Namespace](controller.Enqueue))
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return factory.Run(ctx) })
	group.Go(func() error { return controller.Run(ctx) })
	return group.Wait()
}

// A complete controller, on an API in memory. Over the network, client.New creates the api, and
// fabricsource.New the source.
func Example() {
	api := fake.New(scheme.New(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) //nolint:forbidigo // an example has no testing.T
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- run(ctx, api, listwatch.New(api, nil)) }()

	w, err := client.Of[*corev1.ConfigMap](api).Watch(ctx, "team-a", metav1.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println((<-w.ResultChan()).Object.(*corev1.ConfigMap).Data["text"])
	w.Stop()
	cancel()
	if err := <-done; err != nil {
		fmt.Println(err)
	}
	// Output: hello, team-a
}
