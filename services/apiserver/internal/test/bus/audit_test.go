package bus_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// auditEvent is the part of an audit event that the test checks.
type auditEvent struct {
	Level, AuditID, Stage, RequestURI, Verb string
	User                                    struct {
		Username string
		Groups   []string
	}
	SourceIPs      []string
	ObjectRef      *struct{ Resource, Namespace, Name string }
	ResponseStatus metav1.Status
	Annotations    map[string]string
}

// TestReadingOverTheBusIsAudited: reads of Secrets over NATS are in the audit log like reads over
// HTTP. They come as asks, from the log of watch messages, as rights to watch them, and as requests
// carried over NATS. Refused reads are recorded too.
func TestReadingOverTheBusIsAudited(t *testing.T) {
	s := harness.New(t, etcdtest.New(t))
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	const text = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [get, list, watch]
  resources: [{group: "", resources: [secrets]}]
`
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Change = func(cfg *apiserver.Config) { cfg.Audit.PolicyFile, cfg.Audit.LogPath = policy, log }
	s.Start()
	// The reader may read everything, the other client nothing.
	reader := s.OnBus("system:kube-controller-manager")
	nobody := s.Bus.ConnectAs(newAccount(t, s, "nobody"))
	if outcome, why := harness.Asked(t, reader, &watchv1.Ask{Resource: "secrets"}); outcome != watchv1.Outcome_OUTCOME_WHOLE {
		t.Fatalf("asking for secrets: got %v %s", outcome, why)
	}
	if outcome, why := harness.Asked(t, reader, &watchv1.Ask{Resource: "pods"}); outcome != watchv1.Outcome_OUTCOME_WHOLE {
		t.Fatalf("asking for pods: got %v %s", outcome, why)
	}
	if outcome, why := harness.Asked(t, nobody, &watchv1.Ask{Resource: "secrets", Namespace: "default", Name: "x"}); outcome != watchv1.Outcome_OUTCOME_FORBIDDEN {
		t.Fatalf("asking for a secret without rights: got %v %s", outcome, why)
	}
	page := &watchv1.HistoryAsk{Resource: "secrets", Namespace: "kube-system"}
	if outcome, why := harness.AskedHistory(t, reader, page); outcome != watchv1.HistoryOutcome_HISTORY_OUTCOME_PAGE {
		t.Fatalf("asking for the log: got %v %s", outcome, why)
	}
	carried := harness.Typed(t, s.Carried(t, s.Service("system:kube-controller-manager")))
	if _, err := carried.CoreV1().Secrets("kube-public").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	events := map[string]auditEvent{}
	for line := range strings.Lines(string(data)) {
		var e auditEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if e.ObjectRef == nil || e.ObjectRef.Resource != "secrets" || e.Level != "Metadata" || e.Stage == "RequestReceived" || e.AuditID == "" {
			t.Errorf("an incomplete event: %s", line)
		}
		if len(e.SourceIPs) == 0 || e.SourceIPs[0] != "127.0.0.1" {
			t.Errorf("an event without its source: %s", line)
		}
		// An ask that must wait is answered with "not yet", and repeated.
		if e.ResponseStatus.Code != 504 {
			events[e.User.Username+" "+e.Verb+" "+e.RequestURI+" "+e.Stage] = e
		}
	}
	const controllers, account = "system:kube-controller-manager", "system:serviceaccount:default:nobody"
	for key, want := range map[string]struct {
		code              int32
		decision, carried string
	}{
		controllers + " list /api/v1/secrets ResponseComplete":                                                {200, "allow", "nats"},
		controllers + " list /api/v1/namespaces/kube-system/secrets ResponseComplete":                         {200, "allow", "nats"},
		controllers + " list /api/v1/namespaces/kube-public/secrets ResponseComplete":                         {200, "allow", ""},
		controllers + " watch /api/v1/secrets?watch=true ResponseComplete":                                    {200, "allow", "nats"},
		account + " list /api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dx ResponseComplete": {403, "forbid", "nats"},
	} {
		e, ok := events[key]
		if !ok || e.ResponseStatus.Code != want.code || e.Annotations["authorization.k8s.io/decision"] != want.decision ||
			e.Annotations["bus.garboard.io/carried-by"] != want.carried {
			t.Errorf("%s: got %+v", key, e)
		}
	}
	watch := events[controllers+" watch /api/v1/secrets?watch=true ResponseComplete"]
	until, err := time.Parse(time.RFC3339, watch.Annotations["bus.garboard.io/until"])
	if watch.Annotations["bus.garboard.io/subjects"] != "gb.watch.core.secrets.>" || err != nil || time.Until(until) > 10*time.Minute {
		t.Errorf("the watch's annotations are %v, %v", watch.Annotations, err)
	}
	refused := events[account+" list /api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dx ResponseComplete"]
	if refused.ObjectRef == nil || refused.ObjectRef.Name != "x" || refused.ResponseStatus.Reason != metav1.StatusReasonForbidden ||
		!strings.Contains(refused.ResponseStatus.Message, "cannot list resource") || len(refused.User.Groups) == 0 {
		t.Errorf("the refused ask's event is %+v", refused)
	}
	for key := range events {
		if strings.HasPrefix(key, account+" watch") {
			t.Errorf("an event reports a watch without the right to it: %s", key)
		}
	}
}
