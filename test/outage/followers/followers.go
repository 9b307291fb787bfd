// Package followers follows a deployment with informers, over NATS like Garboard's programs and
// over HTTP like Kubernetes programs, and compares their stores with etcd.
package followers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/fabricsource"
	"github.com/garboard/garboard/libs/scheme"
)

// Followers has informers for pods, config maps and Deployments.
type Followers struct {
	clients kubernetes.Interface
	conn    *bus.Conn
	fabric  *informer.Factory
	http    informers.SharedInformerFactory
	stores  []store
}

// store is the content of one informer: the resourceVersion of each object.
type store struct {
	name string
	held func() map[string]string
	list func(ctx context.Context) (map[string]string, error)
}

// New creates informers that reach the API by config, and NATS by busConfig with the same
// credentials.
func New(config *rest.Config, busConfig bus.Config, log *slog.Logger) (*Followers, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	table := scheme.New()
	api, err := client.New(config, table)
	if err != nil {
		return nil, err
	}
	conn, err := bus.Dial(client.BusConfig(config, busConfig))
	if err != nil {
		return nil, err
	}
	f := &Followers{
		clients: clients, conn: conn, http: informers.NewSharedInformerFactory(clients, 0),
		fabric: informer.NewFactory(informer.FactoryConfig{
			Source: fabricsource.New(fabricsource.Config{Conn: conn, Table: table, Client: api, Logger: log}), Table: table,
			Logger: log, Service: "followers",
		}),
	}
	pods := func(ctx context.Context) (map[string]string, error) {
		list, err := clients.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return versions(list.Items, func(o *corev1.Pod) metav1.Object { return o }), nil
	}
	maps := func(ctx context.Context) (map[string]string, error) {
		list, err := clients.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return versions(list.Items, func(o *corev1.ConfigMap) metav1.Object { return o }), nil
	}
	deployments := func(ctx context.Context) (map[string]string, error) {
		list, err := clients.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return versions(list.Items, func(o *appsv1.Deployment) metav1.Object { return o }), nil
	}
	f.stores = []store{
		{"pods on the fabric", onFabric[*corev1.Pod](f.fabric), pods},
		{"config maps on the fabric", onFabric[*corev1.ConfigMap](f.fabric), maps},
		{"deployments on the fabric", onFabric[*appsv1.Deployment](f.fabric), deployments},
		{"pods over HTTP", overHTTP(f.http.Core().V1().Pods().Informer()), pods},
		{"config maps over HTTP", overHTTP(f.http.Core().V1().ConfigMaps().Informer()), maps},
		{"deployments over HTTP", overHTTP(f.http.Apps().V1().Deployments().Informer()), deployments},
	}
	return f, nil
}

// Run follows until ctx ends.
func (f *Followers) Run(ctx context.Context) error {
	defer f.conn.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return f.fabric.Run(ctx) })
	group.Go(func() error {
		f.http.Start(ctx.Done())
		<-ctx.Done()
		f.http.Shutdown()
		return nil
	})
	return group.Wait()
}

// Differences returns an error that names the informers that differ from etcd; nil if none does.
// Differences are normal while any client writes.
func (f *Followers) Differences(ctx context.Context) error {
	var faults []error
	for _, s := range f.stores {
		want, err := s.list(ctx)
		if err != nil {
			return fmt.Errorf("listing the objects in etcd: %w", err)
		}
		if err := compare(s.name, s.held(), want); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// compare returns an error with the first difference and their number.
func compare(name string, held, want map[string]string) error {
	var first string
	count := 0
	differs := func(format string, args ...any) {
		if count++; count == 1 {
			first = fmt.Sprintf(format, args...)
		}
	}
	for key, version := range want {
		switch got, there := held[key]; {
		case !there:
			differs("%s at %s is missing", key, version)
		case got != version:
			differs("%s is at %s, in etcd at %s", key, got, version)
		}
	}
	for key, version := range held {
		if _, there := want[key]; !there {
			differs("%s at %s is not in etcd", key, version)
		}
	}
	if count == 0 {
		return nil
	}
	return fmt.Errorf("%s: %d differences from etcd, such as: %s", name, count, first)
}

func versions[T any](items []T, meta func(*T) metav1.Object) map[string]string {
	found := make(map[string]string, len(items))
	for i := range items {
		o := meta(&items[i])
		found[o.GetNamespace()+"/"+o.GetName()] = o.GetResourceVersion()
	}
	return found
}

func onFabric[T informer.Object](factory *informer.Factory) func() map[string]string {
	indexer := informer.For[T](factory).Indexer()
	return func() map[string]string {
		return versions(indexer.List(), func(o *T) metav1.Object { return *o })
	}
}

func overHTTP(shared cache.SharedIndexInformer) func() map[string]string {
	store := shared.GetStore()
	return func() map[string]string {
		var objects []metav1.Object
		for _, held := range store.List() {
			if o, ok := held.(metav1.Object); ok {
				objects = append(objects, o)
			}
		}
		return versions(objects, func(o *metav1.Object) metav1.Object { return *o })
	}
}
