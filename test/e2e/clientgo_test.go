package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/garboard/garboard/test/e2e/plane"
)

// TestClientGo runs client-go's own clients and informers, unchanged, against the plane.
func TestClientGo(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated")
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("typed client and informers, JSON", func(t *testing.T) { typed(t, config, "json") })
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	t.Run("typed client and informers, protobuf", func(t *testing.T) { typed(t, protobuf, "protobuf") })
	t.Run("dynamic client", func(t *testing.T) { untyped(t, config) })
}

func typed(t *testing.T, config *rest.Config, name string) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace("default"))
	configMaps := factory.Core().V1().ConfigMaps()
	deleted := make(chan string, 10)
	if _, err := configMaps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(obj any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				deleted <- key
			}
		},
	}); err != nil {
		t.Fatal(err)
	}
	before, err := clients.CoreV1().ConfigMaps("default").Create(ctx, configMap(name, "before"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel()
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Fatalf("the informer of %v did not sync", kind)
		}
	}
	if _, err := configMaps.Lister().ConfigMaps("default").Get(before.Name); err != nil {
		t.Errorf("the initial list lacks an object: %v", err)
	}

	created, err := clients.CoreV1().ConfigMaps("default").Create(ctx, configMap(name, "during"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	created.Data["k"] = "changed"
	updated, err := clients.CoreV1().ConfigMaps("default").Update(ctx, created, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clients.CoreV1().ConfigMaps("default").Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update from an old version: %v, want a conflict", err)
	}
	plane.Eventually(t, "the informer to see the update", func(context.Context) error {
		got, err := configMaps.Lister().ConfigMaps("default").Get(updated.Name)
		if err != nil {
			return err
		}
		if got.ResourceVersion != updated.ResourceVersion {
			return fmt.Errorf("at %s, want %s", got.ResourceVersion, updated.ResourceVersion)
		}
		return nil
	})
	if err := clients.CoreV1().ConfigMaps("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "made-by=" + name}); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for len(seen) < 2 {
		select {
		case key := <-deleted:
			seen[key] = true
		case <-time.After(plane.Patience):
			t.Fatalf("saw only these deletions: %v", seen)
		}
	}
	left, err := configMaps.Lister().ConfigMaps("default").List(labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	for _, cm := range left {
		if cm.Name == before.Name || cm.Name == updated.Name {
			t.Errorf("the informer still has %s", cm.Name)
		}
	}
	if err := clients.CoreV1().ConfigMaps("default").Delete(ctx, updated.Name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a second delete: %v, want not found", err)
	}
}

func untyped(t *testing.T, config *rest.Config) {
	clients, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	deployments := clients.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace("default")
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"generateName": "dynamic-"},
		"spec": map[string]any{
			"replicas": int64(1),
			"selector": map[string]any{"matchLabels": map[string]any{"app": "dynamic"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "dynamic"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "nginx:1.14.2"}}},
			},
		},
	}}
	created, err := deployments.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	plane.Eventually(t, "the deployment to be available", func(ctx context.Context) error {
		got, err := deployments.Get(ctx, created.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if n, _, _ := unstructured.NestedInt64(got.Object, "status", "availableReplicas"); n != 1 {
			return errors.New("it is not available")
		}
		return nil
	})
	watching, err := deployments.Watch(t.Context(), metav1.ListOptions{ResourceVersion: created.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	foreground := metav1.DeletePropagationForeground
	if err := deployments.Delete(t.Context(), created.GetName(), metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case event, ok := <-watching.ResultChan():
			if !ok {
				t.Fatal("the watch ended before the deletion")
			}
			if event.Type == "DELETED" {
				return
			}
		case <-time.After(plane.Patience):
			t.Fatal("the watch did not report the deletion")
		}
	}
}

func configMap(maker, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: maker + "-" + name, Labels: map[string]string{"made-by": maker}}, Data: map[string]string{"k": "v"}}
}
