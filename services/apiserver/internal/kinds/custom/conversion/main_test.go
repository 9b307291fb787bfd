package conversion_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/services/apiserver/internal/fabric/endpoints"
	"github.com/garboard/garboard/services/apiserver/internal/http/webhook/webhooktest"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom/conversion"
)

// TestMain tolerates Kubernetes' logger, which flushes for as long as the process runs.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// patience is the time that webhooks have in tests that do not wait for it to pass.
const patience = time.Minute

var v1, v2 = schema.GroupVersion{Group: "example.org", Version: "v1"}, schema.GroupVersion{Group: "example.org", Version: "v2"}

// nowhere is a Resolver without Services.
type nowhere struct{}

func (nowhere) Resolve(context.Context, string, string, int32) (endpoints.Endpoint, error) {
	return endpoints.Endpoint{}, errors.New("no such service")
}

// answer is a webhook: it answers one question with a document, or with a text.
type answer func(question map[string]any) any

// world has a definition with the versions v1 and v2, and its webhook.
type world struct {
	*testing.T
	converters *conversion.Converters
	definition *apiextensionsv1.CustomResourceDefinition
	metrics    *prometheus.Registry
	server     *webhooktest.Server
}

func newWorld(t testing.TB, timeout time.Duration, handler http.Handler) *world {
	t.Helper()
	w := &world{server: webhooktest.Start(t, handler), metrics: prometheus.NewRegistry()}
	w.T, _ = t.(*testing.T)
	var err error
	w.converters, err = conversion.New(conversion.Config{
		Resolver: nowhere{}, Registerer: w.metrics, Timeout: timeout, Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.converters.Close)
	w.definition = definition("gadgets.example.org", w.server, "/convert", "v1", "v2")
	return w
}

// definition returns a definition with versions, whose webhook takes v1 reviews.
func definition(name string, server *webhooktest.Server, path string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	made := &apiextensionsv1.CustomResourceDefinition{}
	made.Name, made.Spec.Group = name, "example.org"
	for _, version := range versions {
		made.Spec.Versions = append(made.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: version})
	}
	address := server.URL + path
	made.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &address, CABundle: server.CABundle},
			ConversionReviewVersions: []string{"v7", "v1"},
		},
	}
	return made
}

// convert converts objects to v2.
func (w *world) convert(objs ...*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	by, err := w.converters.Of(w.definition)
	if err != nil {
		return nil, err
	}
	return by.Convert(objs, v2)
}

// series returns the values of labels of a metric's series.
func (w *world) series(name string, labels ...string) []string {
	w.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.Fatal(err)
	}
	var all []string
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, one := range family.GetMetric() {
			var values []string
			for _, label := range labels {
				for _, pair := range one.GetLabel() {
					if pair.GetName() == label {
						values = append(values, pair.GetValue())
					}
				}
			}
			all = append(all, strings.Join(values, " "))
		}
	}
	return all
}

// ServeHTTP implements http.Handler.
func (a answer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var question map[string]any
	if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	said := a(question)
	w.Header().Set("Content-Type", "application/json")
	if text, ok := said.(string); ok {
		_, _ = w.Write([]byte(text))
		return
	}
	_ = json.NewEncoder(w).Encode(said)
}

// honest returns the answer of a webhook that converts each object as it is asked to, after edit.
func honest(edit func(at int, object map[string]any)) answer {
	return func(question map[string]any) any {
		asked := question["request"].(map[string]any)
		objects := asked["objects"].([]any)
		for i, obj := range objects {
			object := obj.(map[string]any)
			object["apiVersion"] = asked["desiredAPIVersion"]
			edit(i, object)
		}
		return map[string]any{
			"apiVersion": question["apiVersion"], "kind": question["kind"],
			"response": map[string]any{"uid": asked["uid"], "convertedObjects": objects, "result": map[string]any{"status": "Success"}},
		}
	}
}

// gadget returns an object in a version.
func gadget(version schema.GroupVersion, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"name": name, "namespace": "ns", "uid": "uid-" + name, "resourceVersion": "7", "finalizers": []any{"example.org/f"},
			"labels": map[string]any{"l": "1"},
		},
		"spec": map[string]any{"size": int64(1)},
	}}
	u.SetGroupVersionKind(version.WithKind("Gadget"))
	return u
}
