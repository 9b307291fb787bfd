package filters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// names accepts every bearer token as the name of its user, followed by a slash and a group if the
// user is in one.
type names struct{}

func (names) Token(_ context.Context, token string, _ []string) (authn.Result, bool, error) {
	if token == "old" {
		return authn.Result{}, false, errors.New("it has expired")
	}
	name, group, ok := strings.Cut(token, "/")
	user := authn.User{Name: name}
	if ok {
		user.Groups = []string{group}
	}
	return authn.Result{User: user, Annotations: map[string]string{"stale": "a bit"}}, true, nil
}

// open allows alice everything and other users the path /livez; for the user "broken" it fails.
type open struct{}

func (open) Authorize(_ context.Context, user authn.User, a authz.Attributes) (authz.Decision, string, error) {
	switch {
	case user.Name == "broken":
		return authz.NoOpinion, "", errors.New("the roles cannot be read")
	case user.Name == "alice" || a.Path == "/livez":
		return authz.Allow, "since " + user.Name + " may", nil
	}
	return authz.NoOpinion, "no role", nil
}

// audited returns a chain with an audit log, served over HTTP; events ends the log and reads it.
func audited(t *testing.T, policy string, other http.HandlerFunc) (server *httptest.Server, events func() []map[string]any) {
	t.Helper()
	parsed, err := audit.ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\n" + policy))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "audit.log")
	c := newChain(t, prometheus.NewRegistry(), other)
	c.Authenticator = authn.New(authn.Config{Tokens: []authn.Tokens{names{}}})
	c.Authorizer = open{}
	c.Audit = audit.New(audit.Config{
		Policy: parsed, File: audit.File{Path: path}, Mode: audit.ModeStrict, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Audit.Run(ctx) }()
	server = httptest.NewServer(c)
	return server, func() []map[string]any {
		server.Close()
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var list []map[string]any
		for line := range strings.Lines(string(data)) {
			var event map[string]any
			if err := json.Unmarshal([]byte(line), &event); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			for _, at := range []string{"requestReceivedTimestamp", "stageTimestamp"} {
				if text, _ := event[at].(string); len(text) != len("2006-01-02T15:04:05.000000Z") {
					t.Errorf("%s is %q", at, text)
				}
				delete(event, at)
			}
			list = append(list, event)
		}
		return list
	}
}

// do sends a request with headers of the form "Name: value".
func do(t *testing.T, method, url string, headers ...string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range append(headers, "User-Agent: test") {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer func() { _ = res.Body.Close() }()
	if _, err := io.ReadAll(res.Body); err != nil {
		return 0
	}
	return res.StatusCode
}

const everything = "rules: [{level: RequestResponse}]"

// TestEvents checks the audit events of requests, in Kubernetes' format.
func TestEvents(t *testing.T) {
	// event returns the last event of a request.
	event := func(stage, verb, uri, user, object, status, annotations string) string {
		if object != "" {
			object = `"objectRef":` + object + `,`
		}
		if status != "" {
			status = `"responseStatus":` + status + `,`
		}
		return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"id-1","stage":%q,"requestURI":%q,"verb":%q,
			"user":%s,"sourceIPs":["127.0.0.1"],"userAgent":"test",%s%s"annotations":%s}`, stage, uri, verb, user, object, status, annotations)
	}
	const alice, bob = `{"username":"alice","groups":["system:authenticated"]}`, `{"username":"bob","groups":["system:authenticated"]}`
	const pods = `{"resource":"pods","namespace":"ns","apiVersion":"v9"}`
	const allowed = `{"stale":"a bit","authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"since alice may"}`
	for name, c := range map[string]struct {
		path    string
		headers []string
		handler http.HandlerFunc
		code    int
		stages  string
		last    string
	}{
		"a served request": {
			path: "/livez?verbose", headers: []string{"Authorization: Bearer alice"}, code: 200, stages: "RequestReceived ResponseComplete",
			last: event("ResponseComplete", "get", "/livez?verbose", alice, "", `{"metadata":{},"code":200}`, allowed),
		},
		"a forbidden request": {
			path: "/metrics", headers: []string{"Authorization: Bearer bob"}, code: 403, stages: "RequestReceived ResponseComplete",
			last: strings.Replace(event("ResponseComplete", "get", "/metrics", bob, "",
				`{"metadata":{},"status":"Failure","message":"forbidden: User \"bob\" cannot get path \"/metrics\": no role","reason":"Forbidden","details":{},"code":403}`,
				`{"stale":"a bit","authorization.k8s.io/decision":"forbid","authorization.k8s.io/reason":"no role"}`),
				`"annotations"`, `"responseObject":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"forbidden: User \"bob\" cannot get path \"/metrics\": no role","reason":"Forbidden","details":{},"code":403},"annotations"`, 1),
		},
		"an unauthenticated request": {
			path: "/livez", headers: []string{"Authorization: Bearer old"}, code: 401, stages: "ResponseStarted",
			last: `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"id-1","stage":"ResponseStarted","requestURI":"/livez","verb":"get",
				"user":{},"sourceIPs":["127.0.0.1"],"userAgent":"test",
				"responseStatus":{"metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401},
				"responseObject":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}}`,
		},
		"an impersonating request": {
			path: "/livez", headers: []string{"Authorization: Bearer alice", "Impersonate-User: bob", "Impersonate-Group: dev"}, code: 200, stages: "RequestReceived ResponseComplete",
			last: strings.Replace(event("ResponseComplete", "get", "/livez", alice, "", `{"metadata":{},"code":200}`, strings.Replace(allowed, "alice may", "bob may", 1)),
				`"sourceIPs"`, `"impersonatedUser":{"username":"bob","groups":["dev","system:authenticated"]},"authenticationMetadata":{"impersonationConstraint":"impersonate:user-info"},"sourceIPs"`, 1),
		},
		"a forbidden impersonation": {
			path: "/livez", headers: []string{"Authorization: Bearer bob", "Impersonate-User: alice"}, code: 403, stages: "RequestReceived ResponseComplete",
		},
		"a failing authorizer": {
			path: "/livez", headers: []string{"Authorization: Bearer broken"}, code: 500, stages: "RequestReceived ResponseComplete",
		},
		"a long-running request": {
			path: "/api/v9/namespaces/ns/pods?watch=1", headers: []string{"Authorization: Bearer alice"}, code: 200, stages: "RequestReceived ResponseStarted ResponseComplete",
			last: event("ResponseComplete", "watch", "/api/v9/namespaces/ns/pods?watch=1", alice, pods, `{"metadata":{},"code":200}`, allowed),
		},
		"a panicking handler": {
			path: "/livez", headers: []string{"Authorization: Bearer alice"}, handler: func(http.ResponseWriter, *http.Request) { panic("a bug") },
			code: 500, stages: "RequestReceived Panic",
			last: event("Panic", "get", "/livez", alice, "",
				`{"metadata":{},"status":"Failure","message":"APIServer panic'd: a bug","reason":"InternalError","code":500}`, allowed),
		},
		"an empty response": {
			path: "/livez", headers: []string{"Authorization: Bearer alice"}, handler: func(http.ResponseWriter, *http.Request) {},
			code: 200, stages: "RequestReceived ResponseComplete",
			last: event("ResponseComplete", "get", "/livez", alice, "", `{"metadata":{},"status":"Success","message":"Connection closed early","code":200}`, allowed),
		},
	} {
		t.Run(name, func(t *testing.T) {
			handler := c.handler
			if handler == nil {
				handler = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }
			}
			server, events := audited(t, everything, handler)
			if code := do(t, http.MethodGet, server.URL+c.path, append(c.headers, "Audit-Id: id-1")...); code != c.code {
				t.Errorf("got status %d, want %d", code, c.code)
			}
			var stages []string
			list := events()
			for _, event := range list {
				stages = append(stages, fmt.Sprint(event["stage"]))
			}
			if got := strings.Join(stages, " "); got != c.stages {
				t.Fatalf("got stages %s, want %s", got, c.stages)
			}
			if c.last == "" {
				return
			}
			var want map[string]any
			if err := json.Unmarshal([]byte(c.last), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, list[len(list)-1]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPolicyLeavesOut: a policy leaves out requests and stages.
func TestPolicyLeavesOut(t *testing.T) {
	for policy, want := range map[string]int{
		"rules: [{level: None}]":                                                     0,
		"rules: [{level: None, users: [alice]}, {level: Metadata}]":                  0,
		"rules: [{level: Metadata, omitStages: [RequestReceived]}]":                  1,
		"omitStages: [RequestReceived, ResponseComplete]\nrules: [{level: Request}]": 0,
	} {
		server, events := audited(t, policy, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
		if code := do(t, http.MethodGet, server.URL+"/livez", "Authorization: Bearer alice"); code != 200 {
			t.Errorf("%s: got status %d", policy, code)
		}
		if list := events(); len(list) != want {
			t.Errorf("%s: got events %v, want %d", policy, list, want)
		}
	}
}

// TestStrictAudit: in strict mode, a request whose event cannot be stored is not served.
func TestStrictAudit(t *testing.T) {
	served := false
	server, events := audited(t, everything, func(http.ResponseWriter, *http.Request) { served = true })
	client, url := server.Config.Handler, "/livez"
	events()
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, url, nil)
	r.Header.Set("Authorization", "Bearer alice")
	client.ServeHTTP(w, r)
	if w.Code != http.StatusInternalServerError || served || !strings.Contains(w.Body.String(), "failed to store audit event") {
		t.Errorf("got %d %s, served: %v", w.Code, w.Body, served)
	}
}
