// Package audittest shows tests what their requests leave in the audit log.
package audittest

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// Annotations returns the annotations in the audit log of a request that serve serves, with the context
// that it gets.
func Annotations(t testing.TB, serve func(context.Context)) map[string]string {
	t.Helper()
	policy, err := audit.ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "audit.log")
	auditor := audit.New(audit.Config{
		Policy: policy, File: audit.File{Path: path}, Mode: audit.ModeBlocking, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- auditor.Run(ctx) }()
	record := auditor.Begin(httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/namespaces/ns/pods", nil), audit.Request{
		ID: "i", Received: time.Now(), User: &authn.User{Name: "alice"}, Attributes: authz.Attributes{Verb: "create", Version: "v1", Resource: "pods"},
	})
	serve(audit.With(ctx, record))
	record.Complete(false)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var event struct{ Annotations map[string]string }
	if err := json.Unmarshal(data, &event); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	return event.Annotations
}
