// Package resttest serves the REST handler over HTTP, on a registry with its own etcd, for the tests of
// what is served.
package resttest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/autoscaling/scale"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/binding"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/eviction"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/token"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

// Default is the path of the namespace default.
const Default = "/api/v1/namespaces/default/"

// World is the handler over HTTP.
type World struct {
	// T is the test that fails. A subtest sets its own.
	T *testing.T
	// Catalog has the served kinds, and Table is its table.
	Catalog *kinds.Catalog
	Table   *scheme.Table
	// URL is that of the server.
	URL string
	// Drain ends all watches when it is closed.
	Drain chan struct{}
	// Sent counts the events of watches.
	Sent atomic.Int64
	// Fenced has the checks of fences, and Lost is what they return.
	Fenced []string
	Lost   error
}

// New starts a server, which ends with the test. It has the service account "default".
func New(t *testing.T) *World {
	t.Helper()
	registries := registrytest.New(t)
	w := &World{T: t, Catalog: registries.Catalog, Table: registries.Table, Drain: make(chan struct{})}
	server := httptest.NewServer(w.handler(registries.Registry))
	t.Cleanup(server.Close)
	w.URL = server.URL
	return w
}

func (w *World) handler(reg *registry.Registry) http.Handler {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.T.Fatal(err)
	}
	keys, err := authn.NewLocalKeys(key)
	if err != nil {
		w.T.Fatal(err)
	}
	tokens, err := authn.NewServiceAccounts(authn.ServiceAccountsConfig{
		Keys: keys, Issuers: []string{"https://issuer"}, Audiences: []string{"the-api"}, MaxLife: 2 * 3600e9,
	})
	if err != nil {
		w.T.Fatal(err)
	}
	logger, core := slog.New(slog.DiscardHandler), corev1.SchemeGroupVersion
	encoder := response.New(w.Table, logger)
	h, err := rest.New(rest.Config{
		Table: w.Table, Registry: reg, Encoder: encoder, Fences: w, Logger: logger,
		Parts: map[rest.Part]rest.Serve{
			{Kind: core.WithKind("Binding")}:                                                           binding.ServeNamed(w.Table, reg),
			{Subresource: "binding", Kind: core.WithKind("Binding")}:                                   binding.Serve,
			{Subresource: "eviction", Kind: policyv1.SchemeGroupVersion.WithKind("Eviction")}:          eviction.Serve(reg),
			{Subresource: "attach", Kind: core.WithKind("PodAttachOptions")}:                           serveLog,
			{Subresource: "exec", Kind: core.WithKind("PodExecOptions")}:                               serveLog,
			{Subresource: "log", Kind: core.WithKind("Pod")}:                                           serveLog,
			{Subresource: "portforward", Kind: core.WithKind("PodPortForwardOptions")}:                 serveLog,
			{Subresource: "proxy", Kind: core.WithKind("NodeProxyOptions")}:                            serveLog,
			{Subresource: "proxy", Kind: core.WithKind("PodProxyOptions")}:                             serveLog,
			{Subresource: "proxy", Kind: core.WithKind("ServiceProxyOptions")}:                         serveLog,
			{Subresource: "scale", Kind: autoscalingv1.SchemeGroupVersion.WithKind("Scale")}:           scale.Serve,
			{Subresource: "token", Kind: authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")}: token.Issuer{Table: w.Table, Registry: reg, Accounts: tokens}.Serve,
		},
		Reviews: map[schema.GroupVersionKind]rest.Review{
			authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"): func(_ context.Context, _ string, obj scheme.Object) (scheme.Object, error) {
				obj.SetLabels(map[string]string{"answered": "yes"})
				return obj, nil
			},
		},
		Observations: map[schema.GroupVersionKind]rest.Observation{
			corev1.SchemeGroupVersion.WithKind("ComponentStatus"): func(context.Context, string, string, func(metav1.Object) bool) ([]scheme.Object, error) {
				return []scheme.Object{
					&corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: "etcd-0", Labels: map[string]string{"role": "store"}}},
					&corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: "scheduler"}},
				}, nil
			},
			metricsv1beta1.SchemeGroupVersion.WithKind("PodMetrics"): observePods,
		},
		Watching: func() (<-chan struct{}, func()) { return w.Drain, func() {} },
		Sent:     func(*scheme.Kind) { w.Sent.Add(1) },
	})
	if err != nil {
		w.T.Fatal(err)
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		req, ok := h.Resolve(r)
		if !ok {
			http.Error(rw, "404 page not found", http.StatusNotFound)
			return
		}
		h.Serve(rw, r, req)
	})
}

// Check implements rest.Fences.
func (w *World) Check(ctx context.Context, now bool) error {
	f, _ := fence.From(ctx)
	w.Fenced = append(w.Fenced, fmt.Sprintf("%s %t", f.Name, now))
	return w.Lost
}

// observePods observes the pods a/p and b/p, and refuses those of the namespace "none".
func observePods(_ context.Context, namespace, name string, matches func(metav1.Object) bool) ([]scheme.Object, error) {
	if namespace == "none" {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
	}
	found := []scheme.Object{}
	for _, each := range []string{"a", "b"} {
		pod := &metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: each, Name: "p", Labels: map[string]string{"in": each}}}
		if (namespace == "" || namespace == each) && matches(pod) {
			found = append(found, pod)
		}
	}
	return found, nil
}

// serveLog answers with what it was asked for.
func serveLog(c *rest.Call) error {
	w, _ := c.HTTP()
	_, err := io.WriteString(w, "log of "+c.Request().Namespace+"/"+c.Request().Name)
	return err
}

// Step is a request and what the response must be.
type Step struct {
	// Send is the method and the path.
	Send string
	// Header has headers, "Name: value; Name: value", with a plus before a name that is repeated;
	// Body is JSON unless they say otherwise.
	Header, Body string
	// Want is the response as Show formats it; "..." at the end stands for any text.
	Want string
	// Warns are the texts of its warnings.
	Warns []string
}

// Script sends the requests in order.
func (w *World) Script(steps []Step) {
	w.T.Helper()
	for _, s := range steps {
		r := w.Send(s.Send, s.Header, s.Body)
		got := Show(r)
		if begin, open := strings.CutSuffix(s.Want, "..."); got != s.Want && (!open || !strings.HasPrefix(got, begin)) {
			w.T.Errorf("%s %s %.100s\n got %s\nwant %s", s.Send, s.Header, s.Body, got, s.Want)
		}
		var warned []string
		for _, warning := range r.Header.Values("Warning") {
			warned = append(warned, strings.TrimPrefix(warning, "299 - "))
		}
		if fmt.Sprintf("%q", warned) != fmt.Sprintf("%q", quoted(s.Warns)) {
			w.T.Errorf("%s %.100s: the warnings are %s, want %q", s.Send, s.Body, warned, s.Warns)
		}
	}
}

func quoted(texts []string) []string {
	var list []string
	for _, text := range texts {
		list = append(list, fmt.Sprintf("%q", text))
	}
	return list
}

// Send sends a request; the caller reads its body, which the end of the test closes.
func (w *World) Send(line, header, body string) *http.Response {
	w.T.Helper()
	method, path, _ := strings.Cut(line, " ")
	r, err := http.NewRequestWithContext(w.T.Context(), method, w.URL+path, strings.NewReader(body))
	if err != nil {
		w.T.Fatal(err)
	}
	r.Header.Set("User-Agent", "tester/1.0")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for part := range strings.SplitSeq(header, "; ") {
		if name, value, ok := strings.Cut(part, ": "); ok {
			if again, ok := strings.CutPrefix(name, "+"); ok {
				r.Header.Add(again, value)
				continue
			}
			r.Header.Set(name, value)
		}
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		w.T.Fatalf("%s: %v", line, err)
	}
	w.T.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// Show formats a response in one line: the code, and the kind and name of an object, the names in a
// list, the cells of a table, or the message of an error.
func Show(r *http.Response) string {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err.Error()
	}
	if !strings.Contains(r.Header.Get("Content-Type"), "json") {
		if name, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); name != "text/plain" {
			return fmt.Sprintf("%d %s %d bytes", r.StatusCode, name, len(body))
		}
		return fmt.Sprintf("%d %s", r.StatusCode, bytes.TrimSpace(body))
	}
	return fmt.Sprintf("%d %s", r.StatusCode, ShowJSON(body))
}

// ShowJSON formats a body as Show does.
func ShowJSON(body []byte) string {
	var obj struct {
		metav1.TypeMeta
		Metadata metav1.ObjectMeta
		Status   json.RawMessage
		Message  string
		Reason   string
		Details  *metav1.StatusDetails
		Items    []struct{ Metadata metav1.ObjectMeta }
		Rows     []metav1.TableRow
	}
	if err := json.Unmarshal(body, &obj); err != nil {
		return fmt.Sprintf("%v in %.200s", err, body)
	}
	text := obj.Kind
	switch {
	case obj.Kind == "Status" && obj.Message != "":
		return obj.Message
	case obj.Kind == "Status":
		if obj.Details != nil {
			text += " " + obj.Details.Kind + " " + obj.Details.Name
		}
		return text
	case obj.Kind == "Table":
		for _, row := range obj.Rows {
			text += fmt.Sprintf(" %v", row.Cells[0])
		}
	case strings.HasSuffix(obj.Kind, "List"):
		for _, item := range obj.Items {
			text += " " + item.Metadata.Name
		}
	default:
		text += " " + cmp.Or(obj.Metadata.Name, "-")
		for _, key := range []string{"a", "answered"} {
			if value := obj.Metadata.Labels[key]; value != "" {
				text += " " + key + "=" + value
			}
		}
	}
	if obj.APIVersion == "meta.k8s.io/v1beta1" {
		text += " of v1beta1"
	}
	return text
}
