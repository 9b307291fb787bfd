package clientgo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
)

// nowhere is an apiserver that nothing reaches.
type nowhere struct{}

func (nowhere) RoundTrip(*http.Request) (*http.Response, error) { return nil, http.ErrServerClosed }

// discovery is an apiserver that serves the resources of example.com/v1 and example.com/v2, allows everything,
// and answers the rest with 418.
type discovery struct {
	mu     sync.Mutex
	stored string // the version that etcd holds; empty if the resources are not there
	fails  bool
	asked  []string
}

func (d *discovery) RoundTrip(req *http.Request) (*http.Response, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	answer := httptest.NewRecorder()
	version, about := strings.CutPrefix(req.URL.Path, "/apis/example.com/")
	switch {
	case req.URL.Path == reviewsPath:
		answer.WriteHeader(http.StatusCreated)
		fmt.Fprint(answer, `{"status":{"allowed":true}}`)
	case !about || strings.Contains(version, "/"):
		d.asked = append(d.asked, req.URL.RequestURI())
		answer.WriteHeader(http.StatusTeapot)
	case d.fails:
		d.asked = append(d.asked, "discovery")
		answer.WriteHeader(http.StatusInternalServerError)
	case d.stored == "":
		d.asked = append(d.asked, "discovery")
		answer.WriteHeader(http.StatusNotFound)
	default:
		d.asked = append(d.asked, "discovery as "+req.Header.Get("Authorization"))
		hash := storageHash(schema.GroupVersionKind{Group: "example.com", Version: d.stored, Kind: "Gadget"})
		err := json.NewEncoder(answer).Encode(metav1.APIResourceList{APIResources: []metav1.APIResource{
			{Name: "gadgets", Kind: "Gadget", Namespaced: true, Verbs: []string{"list", "watch"}, StorageVersionHash: hash},
			{Name: "gadgets/status", Kind: "Gadget", Namespaced: true, Verbs: []string{"get"}},
			{Name: "writeonly", Kind: "Gadget", Verbs: []string{"create"}, StorageVersionHash: hash},
		}})
		if err != nil {
			return nil, err
		}
	}
	return answer.Result(), nil
}

func gadget(name string, revision int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Gadget", "spec": map[string]any{"size": int64(3)},
		"metadata": map[string]any{"namespace": "a", "name": name, "uid": "u-" + name, "resourceVersion": fmt.Sprint(revision),
			"labels": map[string]any{"of": name}},
	}}
}

// custom runs an adapter beside an apiserver with custom resources.
func runCustom(t *testing.T) (http.RoundTripper, *driven, *discovery) {
	t.Helper()
	wrapped, source, _ := run(t)
	server := &discovery{stored: "v1"}
	over, ok := wrapped.(*transport)
	if !ok {
		t.Fatalf("the transport is a %T", wrapped)
	}
	return over.adapter.RoundTripper(server), source, server
}

// TestCustomResources reads custom resources from a view, in the version that the bus has.
func TestCustomResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, source, _ := runCustom(t)
		go func() {
			time.Sleep(time.Second)
			v := source.view(t, 0)
			v.Replace(fabric.Position{Revision: 5}, []informer.Object{gadget("one", 4)})
		}()
		const path = "/apis/example.com/v1/gadgets"
		answer := get(t, to, path+"?resourceVersion=0", "Authorization", "Bearer me")
		var list unstructured.UnstructuredList
		if err := json.NewDecoder(answer.Body).Decode(&list.Object); err != nil || list.GetKind() != "GadgetList" || list.GetResourceVersion() != "5" {
			t.Errorf("listed %v: %v", list.Object, err)
		}
		item := fmt.Sprint(list.Object["items"])
		if !strings.Contains(item, "apiVersion:example.com/v1 kind:Gadget") || !strings.Contains(item, "size:3") {
			t.Errorf("the item is %s", item)
		}
		watching := get(t, to, path+"?watch=1&resourceVersion=5&allowWatchBookmarks=true")
		source.view(t, 0).Apply([]informer.Change{{Revision: 6, Namespace: "a", Name: "two", UID: "u-two", Object: gadget("two", 6)}}, 6)
		got := events(t, watching, 1)
		if len(got) != 1 || !strings.Contains(got[0], "two") {
			t.Errorf("got the events %q", got)
		}
		// The view still has the objects' kinds.
		partial := get(t, to, path+"?resourceVersion=0", "Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
		if partial.StatusCode != http.StatusOK || source.view(t, 0).objects["a/one"].GetObjectKind().GroupVersionKind().Kind != "Gadget" {
			t.Errorf("metadata: %s, of a view with %v", partial.Status, source.view(t, 0).objects)
		}
		var metadata metav1.PartialObjectMetadataList
		if err := json.NewDecoder(partial.Body).Decode(&metadata); err != nil || len(metadata.Items) != 2 {
			t.Fatalf("metadata of %d objects: %v", len(metadata.Items), err)
		}
		one := metadata.Items[0]
		if one.Kind != "PartialObjectMetadata" || one.Name != "one" || one.UID != "u-one" || one.ResourceVersion != "4" || one.Labels["of"] != "one" {
			t.Errorf("the metadata is %+v", one)
		}
		if size := sizeOf(gadget("one", 4)); size < 50 {
			t.Errorf("a custom resource counts as %d bytes", size)
		}
	})
}

// TestCustomResourcesOfTheApiserver sends what the bus does not have to the apiserver, and looks again later.
func TestCustomResourcesOfTheApiserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, source, server := runCustom(t)
		asks := func(uri, accept string, want ...string) {
			t.Helper()
			server.mu.Lock()
			server.asked = nil
			server.mu.Unlock()
			if answer := get(t, to, uri, "Accept", accept); answer.StatusCode != http.StatusTeapot {
				t.Errorf("%s was answered: %s", uri, answer.Status)
			}
			expect(t, server.asked, want...)
		}
		const v1, v2, json = "/apis/example.com/v1/gadgets", "/apis/example.com/v2/gadgets", "application/json"
		asks(v2, json, "discovery as ", v2) // etcd holds v1.
		asks(v2, json, v2)                  // That is known now.
		asks("/apis/example.com/v1/writeonly", json, "discovery as ", "/apis/example.com/v1/writeonly")
		asks("/apis/example.com/v1/nothing", json, "discovery as ", "/apis/example.com/v1/nothing")
		asks(v1, "application/vnd.kubernetes.protobuf", "discovery as ", v1)
		asks(v1+"?fieldSelector=spec.size%3D3", json, v1+"?fieldSelector=spec.size%3D3")
		asks("/apis/autoscaling/v9/horizontalpodautoscalers", json, "/apis/autoscaling/v9/horizontalpodautoscalers") // built in
		if len(source.sinks) > 0 {
			t.Errorf("%d views are followed", len(source.sinks))
		}

		// Another version is stored, the definition is deleted, and discovery fails.
		server.stored = "v2"
		time.Sleep(knownFor)
		asks(v1, json, "discovery as ", v1)
		server.stored = ""
		time.Sleep(knownFor)
		asks(v1, json, "discovery", v1)
		server.fails = true
		time.Sleep(knownFor)
		asks(v1, json, "discovery", v1)
		asks(v1, json, "discovery", v1) // A failure is not remembered.
	})
}

// TestCustomKindStays checks that a view goes on while discovery tells the same.
func TestCustomKindStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := newCustom("", time.Second), &discovery{stored: "v1"}
		gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
		req := asked("http://x/apis/example.com/v1/gadgets").WithContext(t.Context())
		first := c.kind(req, server, gvr)
		time.Sleep(2 * knownFor)
		if second := c.kind(req, server, gvr); first == nil || second != first || len(server.asked) != 2 {
			t.Errorf("got %p and then %p with %q", first, second, server.asked)
		}
	})
}
