package webhooks_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
	"github.com/garboard/garboard/services/apiserver/internal/admission/webhooks"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/webhook/webhooktest"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/builtin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// asked is a question that a webhook got.
type asked = admissionv1.AdmissionRequest

// hooks is a webhook server that answers by path. A path without an answer allows.
type hooks struct {
	*webhooktest.Server

	mu      sync.Mutex
	asked   []string // paths
	last    map[string]*asked
	raw     map[string][]byte
	answers map[string]answer
}

// answer answers a question: it fills the response, or writes something else and returns false.
type answer func(w http.ResponseWriter, r *http.Request, question *asked, response *admissionv1.AdmissionResponse) bool

// startHooks starts a server for the Services "hook" and "other" as well.
func startHooks(t testing.TB) *hooks {
	t.Helper()
	h := &hooks{last: map[string]*asked{}, raw: map[string][]byte{}, answers: map[string]answer{}}
	h.Server = webhooktest.Start(t, h, "hook.ns.svc", "other.ns.svc")
	return h
}

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var raw json.RawMessage
	var review admissionv1.AdmissionReview
	if json.NewDecoder(r.Body).Decode(&raw) != nil || json.Unmarshal(raw, &review) != nil || review.Request == nil {
		http.Error(w, "no question", http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.asked = append(h.asked, r.URL.Path)
	h.last[r.URL.Path], h.raw[r.URL.Path] = review.Request, raw
	answer := h.answers[r.URL.Path]
	h.mu.Unlock()
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if answer != nil && !answer(w, r, review.Request, review.Response) {
		return
	}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

func (h *hooks) answer(path string, answer answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers[path] = answer
}

// calls returns the paths that were asked since the last call of calls.
func (h *hooks) calls() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := h.asked
	h.asked = nil
	return asked
}

func (h *hooks) question(path string) *asked {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last[path]
}

// deny refuses with a status.
func deny(status *metav1.Status) answer {
	return func(_ http.ResponseWriter, _ *http.Request, _ *asked, response *admissionv1.AdmissionResponse) bool {
		response.Allowed, response.Result = false, status
		return true
	}
}

// patchWith answers with a JSON patch.
func patchWith(patch string) answer {
	return func(_ http.ResponseWriter, _ *http.Request, _ *asked, response *admissionv1.AdmissionResponse) bool {
		response.Patch, response.PatchType = []byte(patch), new(admissionv1.PatchTypeJSONPatch)
		return true
	}
}

// world is what the plugins work in.
type world struct {
	*admissiontest.World
	*hooks
	t        testing.TB
	metrics  *prometheus.Registry
	catalog  *kinds.Catalog
	mutating bool
	plugin   admission.Plugin
	// allowed is what the user may do.
	allowed func(authz.Attributes) bool
}

// newWorld returns a world with one of the two plugins.
func newWorld(t testing.TB, mutating bool, objs ...scheme.Object) *world {
	t.Helper()
	return newWorldWith(t, mutating, func(*hooks) string { return "" }, objs...)
}

// newWorldWith is newWorld with the plugin's configuration.
func newWorldWith(t testing.TB, mutating bool, document func(*hooks) string, objs ...scheme.Object) *world {
	t.Helper()
	w := &world{World: admissiontest.New(objs...), hooks: startHooks(t), t: t, metrics: prometheus.NewRegistry(), mutating: mutating}
	var err error
	if w.catalog, err = builtin.Catalog(w.Table, builtin.Config{}); err != nil {
		t.Fatal(err)
	}
	create := webhooks.Validating
	if mutating {
		create = webhooks.Mutating
	}
	w.plugin, err = create(webhooks.Config{
		Document: []byte(document(w.hooks)), Objects: w.Objects(), Kinds: w.catalog, Registerer: w.metrics, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Authorizer: &admissiontest.Authorizer{Allow: func(a authz.Attributes) bool { return w.allowed != nil && w.allowed(a) }},
		Proxy:      func(*http.Request) (*url.URL, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.plugin.Close)
	return w
}

// hook is a webhook before it is stored, whatever its kind.
type hook struct {
	registrationv1.ValidatingWebhook
	reinvocation registrationv1.ReinvocationPolicyType
}

// everything returns a webhook that is asked about everything, at the path of its name.
func (w *world) everything(name string, change ...func(*hook)) hook {
	h := hook{ValidatingWebhook: registrationv1.ValidatingWebhook{
		Name:         name,
		ClientConfig: registrationv1.WebhookClientConfig{URL: new(w.URL + "/" + name), CABundle: w.CABundle},
		Rules: []registrationv1.RuleWithOperations{{
			Operations: []registrationv1.OperationType{"*"},
			Rule:       registrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
		}},
		FailurePolicy: new(registrationv1.Fail), MatchPolicy: new(registrationv1.Equivalent), SideEffects: new(registrationv1.SideEffectClassNone),
		NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
		TimeoutSeconds: new(int32(10)), AdmissionReviewVersions: []string{"v1"},
	}}
	for _, c := range change {
		c(&h)
	}
	return h
}

var generation int64

// configure stores a configuration of the webhooks.
func (w *world) configure(name string, hooks ...hook) {
	generation++
	meta := metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: generation}
	if !w.mutating {
		c := &registrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta}
		for _, h := range hooks {
			c.Webhooks = append(c.Webhooks, h.ValidatingWebhook)
		}
		w.Put(c)
		return
	}
	c := &registrationv1.MutatingWebhookConfiguration{ObjectMeta: meta}
	for _, h := range hooks {
		c.Webhooks = append(c.Webhooks, registrationv1.MutatingWebhook{
			Name: h.Name, ClientConfig: h.ClientConfig, Rules: h.Rules, FailurePolicy: h.FailurePolicy, MatchPolicy: h.MatchPolicy,
			NamespaceSelector: h.NamespaceSelector, ObjectSelector: h.ObjectSelector, SideEffects: h.SideEffects,
			TimeoutSeconds: h.TimeoutSeconds, AdmissionReviewVersions: h.AdmissionReviewVersions, MatchConditions: h.MatchConditions,
			ReinvocationPolicy: &h.reinvocation,
		})
	}
	w.Put(c)
}

// admit admits a request, and returns the warnings.
func (w *world) admit(req *admission.Request) ([]string, error) {
	w.t.Helper()
	t, ok := w.t.(*testing.T)
	if !ok {
		w.t.Fatal("requests are admitted in tests only")
	}
	return w.Admit(t, req, w.plugin)
}

// counted returns the value of a counter, or the count of a histogram, with the labels.
func (w *world) counted(name string, labels map[string]string) float64 {
	w.t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
	next:
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if want, ok := labels[label.GetName()]; ok && want != label.GetValue() {
					continue next
				}
			}
			if m.GetHistogram() != nil {
				return float64(m.GetHistogram().GetSampleCount())
			}
			return m.GetCounter().GetValue()
		}
	}
	return 0
}

// patience is more than any test needs.
const patience = 30 * time.Second
