package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/apiserver/internal/fabric/endpoints"
	"github.com/garboard/garboard/services/apiserver/internal/http/webhook"
	"github.com/garboard/garboard/services/apiserver/internal/http/webhook/webhooktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// resolve is a Resolver.
type resolve func(namespace, name string, port int32) (string, error)

func (r resolve) Resolve(_ context.Context, namespace, name string, port int32) (endpoints.Endpoint, error) {
	address, err := r(namespace, name, port)
	return endpoints.Endpoint{Address: address}, err
}

func newClients(t *testing.T, resolver webhook.Resolver) *webhook.Clients {
	t.Helper()
	documents := runtime.NewScheme()
	if err := admissionv1.AddToScheme(documents); err != nil {
		t.Fatal(err)
	}
	clients := webhook.New(webhook.Config{
		Documents: documents, Versions: schema.GroupVersions{admissionv1.SchemeGroupVersion}, UserAgent: "tester", Resolver: resolver,
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
	})
	t.Cleanup(clients.Close)
	return clients
}

// call asks the target, and returns the uid of the answer.
func call(ctx context.Context, clients *webhook.Clients, target webhook.Target) (string, error) {
	client, err := clients.Client(target)
	if err != nil {
		return "", err
	}
	answer := &admissionv1.AdmissionReview{}
	err = client.Call(ctx, &admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{UID: "u"}}, answer)
	if err != nil || answer.Response == nil {
		return "", err
	}
	return string(answer.Response.UID), nil
}

// echo answers with the uid of the question.
func echo(w http.ResponseWriter, r *http.Request) {
	var question admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	question.Response = &admissionv1.AdmissionResponse{UID: question.Request.UID + types.UID(r.URL.Path)}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(question)
}

// TestTargets calls webhooks by URL and by Service, and targets that cannot be called.
func TestTargets(t *testing.T) {
	s := webhooktest.Start(t, http.HandlerFunc(echo), "hook.ns.svc")
	other := webhooktest.Start(t, http.HandlerFunc(echo), "other.ns.svc")
	clients := newClients(t, resolve(func(namespace, name string, port int32) (string, error) {
		switch fmt.Sprintf("%s/%s:%d", namespace, name, port) {
		case "ns/hook:443", "ns/hook:8443":
			return strings.TrimPrefix(s.URL, "https://"), nil
		case "ns/other:443":
			return strings.TrimPrefix(other.URL, "https://"), nil
		}
		return "", errors.New("no such service")
	}))
	service := func(name string, port int32, path string) *webhook.Service {
		return &webhook.Service{Namespace: "ns", Name: name, Port: port, Path: path}
	}
	for _, tc := range []struct {
		name   string
		target webhook.Target
		want   string
		err    string
	}{
		{"a URL", webhook.Target{URL: s.URL + "/a/b", CABundle: s.CABundle}, "u/a/b", ""},
		{"a URL without a path", webhook.Target{URL: s.URL, CABundle: s.CABundle}, "u/", ""},
		{"a Service", webhook.Target{Service: service("hook", 0, "/x"), CABundle: s.CABundle}, "u/x", ""},
		{"its port", webhook.Target{Service: service("hook", 8443, ""), CABundle: s.CABundle}, "u/", ""},
		{"no such port", webhook.Target{Service: service("hook", 1, ""), CABundle: s.CABundle}, "", `Post "https://hook.ns.svc:1/?timeout=10s": no such service`},
		{"the certificate of another", webhook.Target{Service: service("other", 0, ""), CABundle: s.CABundle}, "", "certificate signed by unknown authority"},
		{"system roots", webhook.Target{URL: s.URL}, "", "certificate signed by unknown authority"},
		{"no certificates", webhook.Target{URL: s.URL, CABundle: []byte("x")}, "", "unable to load root certificates: unable to parse bytes as PEM block"},
		{"nothing", webhook.Target{}, "", "webhook configuration must have either service or URL"},
		{"no URL", webhook.Target{URL: "https://a b"}, "", "Unparsable URL: parse"},
		{"nothing listens", webhook.Target{URL: "https://127.0.0.1:1"}, "", `Post "https://127.0.0.1:1/?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 9500*time.Millisecond)
			defer cancel()
			got, err := call(ctx, clients, tc.target)
			if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got %q, %v, want %q, %s", got, err, tc.want, tc.err)
			}
		})
	}
	// The name in the certificate counts, not the address.
	clients = newClients(t, resolve(func(string, string, int32) (string, error) { return strings.TrimPrefix(s.URL, "https://"), nil }))
	_, err := call(t.Context(), clients, webhook.Target{Service: service("third", 0, ""), CABundle: s.CABundle})
	if err == nil || !strings.Contains(err.Error(), "certificate is valid for hook.ns.svc, not third.ns.svc") {
		t.Errorf("got %v", err)
	}
}

// TestAnswers gets answers that are none.
func TestAnswers(t *testing.T) {
	var elsewhere atomic.Int32
	other := webhooktest.Start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"an error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", 500) },
			`an error on the server ("broken") has prevented the request from succeeding`},
		{"not found", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "the server could not find the requested resource"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, "the server responded with the status code 307"},
		{"garbage", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "\x00\x01{") }, "couldn't get version/kind; json parse error"},
		{"nothing", func(http.ResponseWriter, *http.Request) {}, "0-length response with status code: 200"},
		{"another kind", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Pod"}`)
		}, `no kind "Pod" is registered for version "v1"`},
		{"a large one", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"a":"`)
			block := strings.Repeat("x", 1<<20)
			for range 9 {
				if _, err := io.WriteString(w, block); err != nil {
					return
				}
			}
		}, "the answer has more than 8388608 bytes"},
		{"a deep one", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte("["), 7<<20))
		}, "exceeded max depth"},
		{"large headers", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<18)) }, "server response headers exceeded"},
		{"a closed connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		{"none in time", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, "context deadline exceeded"},
		{"drop by drop", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			for { // Until the client has gone.
				if _, err := io.WriteString(w, " "); err != nil || http.NewResponseController(w).Flush() != nil {
					return
				}
				<-time.After(10 * time.Millisecond)
			}
		}, "context deadline exceeded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := webhooktest.Start(t, tc.answer)
			clients := newClients(t, nil)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			if strings.Contains(tc.want, "deadline") {
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
			}
			defer cancel()
			_, err := call(ctx, clients, webhook.Target{URL: s.URL, CABundle: s.CABundle})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
	if elsewhere.Load() > 0 {
		t.Error("a redirect was followed")
	}
}

// TestRequest checks what the server gets.
func TestRequest(t *testing.T) {
	var got *http.Request
	s := webhooktest.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Clone(context.WithoutCancel(r.Context()))
		echo(w, r)
	}), "hook.ns.svc")
	clients := newClients(t, resolve(func(string, string, int32) (string, error) { return strings.TrimPrefix(s.URL, "https://"), nil }))
	ctx, cancel := context.WithTimeout(t.Context(), 9500*time.Millisecond)
	defer cancel()
	if _, err := call(ctx, clients, webhook.Target{Service: &webhook.Service{Namespace: "ns", Name: "hook", Path: "/p"}, CABundle: s.CABundle}); err != nil {
		t.Fatal(err)
	}
	if got.Method != "POST" || got.Host != "hook.ns.svc:443" || got.URL.String() != "/p?timeout=10s" || got.UserAgent() != "tester" ||
		got.Header.Get("Content-Type") != "application/json" || got.Header.Get("Authorization") != "" {
		t.Errorf("got %s %s%s %v", got.Method, got.Host, got.URL, got.Header)
	}
}

// TestConnections checks that calls share connections until their target is no longer kept.
func TestConnections(t *testing.T) {
	remote := map[string]bool{}
	s := webhooktest.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		remote[r.RemoteAddr] = true
		echo(w, r)
	}))
	clients := newClients(t, nil)
	target := webhook.Target{URL: s.URL, CABundle: s.CABundle}
	for i, want := range []int{1, 1, 1, 2} {
		if i == 2 {
			clients.Keep([]webhook.Target{target})
		}
		if i == 3 {
			clients.Keep([]webhook.Target{{URL: s.URL + "/other"}})
		}
		if _, err := call(t.Context(), clients, target); err != nil {
			t.Fatal(err)
		}
		if len(remote) != want {
			t.Errorf("call %d: got %d connections, want %d", i, len(remote), want)
		}
	}
}
