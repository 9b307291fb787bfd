package rest_test

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/autoscaling/scale"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/binding"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/eviction"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/token"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

const defaultNS = "/api/v1/namespaces/default/"

// world is the handler over HTTP, on a registry with its own etcd.
type world struct {
	t     *testing.T
	table *scheme.Table
	url   string
	// drain ends all watches when it is closed.
	drain chan struct{}
	// sent counts the events of watches.
	sent atomic.Int64
	// fenced has the checks of fences, and lost is what they return.
	fenced []string
	lost   error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	registries := registrytest.New(t)
	w := &world{t: t, table: registries.Table, drain: make(chan struct{})}
	server := httptest.NewServer(w.handler(registries.Registry))
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

func (w *world) handler(reg *registry.Registry) http.Handler {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	tokens, err := authn.NewServiceAccounts(authn.ServiceAccountsConfig{
		Key: key, Issuers: []string{"https://issuer"}, Audiences: []string{"the-api"}, MaxLife: 2 * 3600e9,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	logger, core := slog.New(slog.DiscardHandler), corev1.SchemeGroupVersion
	answers := response.New(w.table, logger)
	h, err := rest.New(rest.Config{
		Table: w.table, Registry: reg, Answers: answers, Fences: w, Logger: logger,
		Parts: map[rest.Part]rest.Serve{
			{Kind: core.WithKind("Binding")}:                                                           binding.ServeNamed(w.table, reg),
			{Subresource: "binding", Kind: core.WithKind("Binding")}:                                   binding.Serve,
			{Subresource: "eviction", Kind: policyv1.SchemeGroupVersion.WithKind("Eviction")}:          eviction.Serve,
			{Subresource: "log", Kind: core.WithKind("Pod")}:                                           serveLog,
			{Subresource: "scale", Kind: autoscalingv1.SchemeGroupVersion.WithKind("Scale")}:           scale.Serve,
			{Subresource: "token", Kind: authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")}: token.Issuer{Table: w.table, Registry: reg, Accounts: tokens}.Serve,
		},
		Reviews: map[schema.GroupVersionKind]rest.Review{
			authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"): func(_ context.Context, _ string, obj scheme.Object) (scheme.Object, error) {
				obj.SetLabels(map[string]string{"answered": "yes"})
				return obj, nil
			},
		},
		Observations: map[schema.GroupVersionKind]rest.Observation{
			corev1.SchemeGroupVersion.WithKind("ComponentStatus"): func(context.Context) []scheme.Object {
				return []scheme.Object{
					&corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: "etcd-0", Labels: map[string]string{"role": "store"}}},
					&corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: "scheduler"}},
				}
			},
		},
		Watching: func() (<-chan struct{}, func()) { return w.drain, func() {} },
		Sent:     func(*scheme.Kind) { w.sent.Add(1) },
	})
	if err != nil {
		w.t.Fatal(err)
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
func (w *world) Check(ctx context.Context, now bool) error {
	f, _ := fence.From(ctx)
	w.fenced = append(w.fenced, fmt.Sprintf("%s %t", f.Name, now))
	return w.lost
}

// serveLog answers with what it was asked for.
func serveLog(c *rest.Call) error {
	w, _ := c.HTTP()
	_, err := io.WriteString(w, "log of "+c.Request().Namespace+"/"+c.Request().Name)
	return err
}

// step is a request and what the response must be.
type step struct {
	// send is the method and the path.
	send string
	// header has headers, "Name: value; Name: value", with a plus before a name that is repeated;
	// body is JSON unless they say otherwise.
	header, body string
	// want is the response as show formats it; "..." at the end stands for any text.
	want string
	// warns are the texts of its warnings.
	warns []string
}

// script sends the requests in order.
func (w *world) script(steps []step) {
	w.t.Helper()
	for _, s := range steps {
		r := w.send(s.send, s.header, s.body)
		got := show(r)
		if begin, open := strings.CutSuffix(s.want, "..."); got != s.want && (!open || !strings.HasPrefix(got, begin)) {
			w.t.Errorf("%s %s %.100s\n got %s\nwant %s", s.send, s.header, s.body, got, s.want)
		}
		var warned []string
		for _, warning := range r.Header.Values("Warning") {
			warned = append(warned, strings.TrimPrefix(warning, "299 - "))
		}
		if fmt.Sprintf("%q", warned) != fmt.Sprintf("%q", quoted(s.warns)) {
			w.t.Errorf("%s %.100s: the warnings are %s, want %q", s.send, s.body, warned, s.warns)
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

// send sends a request; the caller reads its body, which the end of the test closes.
func (w *world) send(line, header, body string) *http.Response {
	w.t.Helper()
	method, path, _ := strings.Cut(line, " ")
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
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
		w.t.Fatalf("%s: %v", line, err)
	}
	w.t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// show formats a response in one line: the code, and the kind and name of an object, the names in a
// list, the cells of a table, or the message of an error.
func show(r *http.Response) string {
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
	return fmt.Sprintf("%d %s", r.StatusCode, showJSON(body))
}

func showJSON(body []byte) string {
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
