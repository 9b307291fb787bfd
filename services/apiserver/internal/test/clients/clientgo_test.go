package clients_test

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestTypedClient goes through the verbs with client-go's typed client, in JSON and protobuf.
func TestTypedClient(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	for name, contentType := range map[string]string{"json": runtime.ContentTypeJSON, "protobuf": runtime.ContentTypeProtobuf} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			config := s.Admin()
			config.ContentType, config.AcceptContentTypes = contentType, contentType
			client := harness.Typed(t, config)
			deployments := client.AppsV1().Deployments("default")

			watching, err := deployments.Watch(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
			if err != nil {
				t.Fatal(err)
			}
			defer watching.Stop()
			made, err := deployments.Create(ctx, harness.Deployment(name), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if made.UID == "" || made.ResourceVersion == "" || made.Generation != 1 {
				t.Errorf("created without its metadata: %+v", made.ObjectMeta)
			}
			if _, err := deployments.Create(ctx, harness.Deployment(name), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
				t.Errorf("created twice: got %v, want AlreadyExists", err)
			}
			stale := made.DeepCopy()
			made.Annotations = map[string]string{"a": "b"}
			updated, err := deployments.Update(ctx, made, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := deployments.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				t.Errorf("an update of an old version: got %v, want a conflict", err)
			}
			patched, err := deployments.Patch(ctx, name, types.StrategicMergePatchType,
				[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"nginx:1.16.1"},{"name":"d","image":"x"}]}}}}`), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if containers := patched.Spec.Template.Spec.Containers; len(containers) != 2 || patched.Generation != 3 {
				t.Errorf("patched to generation %d with containers %v", patched.Generation, containers)
			}
			scale, err := deployments.GetScale(ctx, name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			scale.Spec.Replicas = 5
			if scale, err = deployments.UpdateScale(ctx, name, scale, metav1.UpdateOptions{}); err != nil || scale.Spec.Replicas != 5 {
				t.Fatalf("scaled to %v, %v", scale, err)
			}
			patched.Status.Replicas = 3
			patched.ResourceVersion = ""
			status, err := deployments.UpdateStatus(ctx, patched, metav1.UpdateOptions{})
			if err != nil || status.Status.Replicas != 3 || *status.Spec.Replicas != 5 {
				t.Fatalf("got status %v, %v", status, err)
			}
			list, err := deployments.List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
			if err != nil || len(list.Items) != 1 || list.ResourceVersion == "" || list.Items[0].Kind != "" {
				t.Fatalf("listed %v, %v", list, err)
			}
			if err := deployments.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &updated.UID}}); err != nil {
				t.Fatal(err)
			}
			if _, err := deployments.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("reading a deleted object: got %v, want NotFound", err)
			}
			var seen []watch.EventType
			for event := range watching.ResultChan() {
				seen = append(seen, event.Type)
				if event.Type == watch.Deleted {
					break
				}
			}
			if got := len(seen); got != 6 || seen[0] != watch.Added {
				t.Errorf("watched %v, want ADDED, 4 MODIFIED, DELETED", seen)
			}
		})
	}
}

// TestInformers runs client-go's own informers, which use WatchList.
func TestInformers(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	client := harness.Typed(t, s.Admin())
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	for _, name := range []string{"one", "two"} {
		if _, err := client.AppsV1().Deployments("default").Create(ctx, harness.Deployment(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	deployments, namespaces := factory.Apps().V1().Deployments(), factory.Core().V1().Namespaces()
	changed := make(chan string, 100)
	_, err := deployments.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { changed <- "+" + obj.(*appsv1.Deployment).Name },
		DeleteFunc: func(obj any) { changed <- "-" + obj.(*appsv1.Deployment).Name },
	})
	if err != nil {
		t.Fatal(err)
	}
	namespaces.Informer()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer cancel()
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Fatalf("the informer of %v is not synced", kind)
		}
	}
	if _, err := namespaces.Lister().Get("kube-node-lease"); err != nil {
		t.Error(err)
	}
	if err := client.AppsV1().Deployments("default").Delete(ctx, "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"+one": true, "+two": true, "-one": true}
	for len(want) > 0 {
		select {
		case got := <-changed:
			if !want[got] {
				t.Fatalf("unexpected %s", got)
			}
			delete(want, got)
		case <-ctx.Done():
			t.Fatalf("did not see %v", want)
		}
	}
}

// TestWatchList watches like kubectl's wait, and must get the bookmark that ends the initial
// events.
func TestWatchList(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	client, err := dynamic.NewForConfig(s.Admin())
	if err != nil {
		t.Fatal(err)
	}
	initial := true
	watching, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents: &initial, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	timer := time.NewTimer(harness.Patience)
	defer timer.Stop()
	var names []string
	for {
		select {
		case event := <-watching.ResultChan():
			obj, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				t.Fatalf("got %v", event)
			}
			if event.Type == watch.Added {
				names = append(names, obj.GetName())
				continue
			}
			if event.Type != watch.Bookmark || obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" ||
				obj.GetKind() != "Namespace" || obj.GetAPIVersion() != "v1" || obj.GetResourceVersion() == "" {
				t.Fatalf("the initial events end with %v", event)
			}
			if len(names) != 4 {
				t.Errorf("the initial events were %v, want 4 namespaces", names)
			}
			return
		case <-timer.C:
			t.Fatalf("no bookmark after %v", names)
		}
	}
}

func TestDynamicClient(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	client, err := dynamic.NewForConfig(s.Admin())
	if err != nil {
		t.Fatal(err)
	}
	maps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	ctx := t.Context()
	made, err := maps.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"generateName": "c-"}, "data": map[string]any{"k": "v"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	name := made.GetName()
	if !strings.HasPrefix(name, "c-") || len(name) != 7 {
		t.Errorf("generated the name %q", name)
	}
	_, err = maps.Patch(ctx, name, types.JSONPatchType, []byte(`[{"op":"test","path":"/data/k","value":"w"}]`), metav1.PatchOptions{})
	if status := harness.StatusOf(t, err); status.Code != 422 {
		t.Errorf("a JSON patch whose test fails: got %+v", status)
	}
	patched, err := maps.Patch(ctx, name, types.MergePatchType, []byte(`{"data":{"k":null,"l":"m"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if data, _, _ := unstructured.NestedStringMap(patched.Object, "data"); len(data) != 1 || data["l"] != "m" {
		t.Errorf("merged to %v", data)
	}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + name}); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after deletecollection: got %v, want NotFound", err)
	}
}
