package policies_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
	"github.com/garboard/garboard/services/apiserver/internal/admission/policies"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit/audittest"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/builtin"
	"github.com/garboard/garboard/services/apiserver/internal/registry/managedfields"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a cluster with policies, and the two plugins.
type world struct {
	*admissiontest.World
	t          testing.TB
	catalog    *kinds.Catalog
	authorizer *admissiontest.Authorizer
	metrics    *prometheus.Registry
	mutating   admission.Plugin
	chain      *admission.Chain
	generation int64
}

// newWorld returns a world with the objects of YAML documents.
func newWorld(t testing.TB, documents string) *world {
	t.Helper()
	return newWorldWith(t, documents, "", "")
}

// newWorldWith is newWorld with the configurations of the two plugins.
func newWorldWith(t testing.TB, documents, mutating, validating string) *world {
	t.Helper()
	w := &world{World: admissiontest.New(), t: t, authorizer: &admissiontest.Authorizer{}, metrics: prometheus.NewRegistry()}
	var err error
	if w.catalog, err = builtin.Catalog(w.Table, builtin.Config{}); err != nil {
		t.Fatal(err)
	}
	cfg := policies.Config{
		Objects: w.Objects(), Definitions: definitions{w.catalog, managedfields.New(managedfields.Config{Table: w.Table})},
		Authorizer: w.authorizer, Registerer: w.metrics,
	}
	cfg.Document = []byte(mutating)
	if w.mutating, err = policies.Mutating(cfg); err != nil {
		t.Fatal(err)
	}
	cfg.Document = []byte(validating)
	plugin, err := policies.Validating(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.chain = admission.NewChain(w.mutating, plugin)
	w.apply(documents)
	return w
}

// apply stores the objects of YAML documents, with their defaults.
func (w *world) apply(documents string) {
	w.t.Helper()
	for document := range strings.SplitSeq(documents, "\n---") {
		if strings.TrimSpace(document) != "" {
			w.put(w.decode(document))
		}
	}
}

func (w *world) decode(document string) scheme.Object {
	w.t.Helper()
	decoded, _, err := w.Table.Codecs().UniversalDeserializer().Decode([]byte(document), nil, nil)
	if err != nil {
		w.t.Fatalf("decoding %s: %v", document, err)
	}
	obj := decoded.(scheme.Object)
	kind := w.Table.KindOf(obj)
	if kind.Namespaced && obj.GetNamespace() == "" {
		obj.SetNamespace("ns")
	}
	if def := w.catalog.Of(kind).Default; def != nil {
		def(obj)
	}
	return obj
}

func (w *world) put(obj scheme.Object) {
	w.generation++
	obj.SetUID(types.UID("uid of " + obj.GetName()))
	obj.SetGeneration(w.generation)
	w.Put(obj)
}

// definitions do with objects what a registry does.
type definitions struct {
	*kinds.Catalog
	*managedfields.Owners
}

// answer is what a client and the audit log are told.
type answer struct {
	err         error
	warnings    []string
	annotations map[string]string
}

// create has the plugins admit the creation of an object.
func (w *world) create(obj scheme.Object) answer {
	return w.admit(&admission.Request{Verb: admission.Create, Object: obj})
}

// admit has the plugins admit a request of the user alice, as a registry does.
func (w *world) admit(req *admission.Request) answer {
	w.t.Helper()
	if req.Kind == nil {
		obj := req.Object
		if obj == nil {
			obj = req.Old
		}
		req.Kind = w.Table.KindOf(obj)
		req.Namespace, req.Name = obj.GetNamespace(), obj.GetName()
	}
	for _, obj := range []scheme.Object{req.Object, req.Old} {
		if obj != nil && obj.GetObjectKind().GroupVersionKind().Empty() {
			obj.GetObjectKind().SetGroupVersionKind(req.Kind.GroupVersionKind)
		}
	}
	var a answer
	a.annotations = audittest.Annotations(w.t, func(ctx context.Context) {
		ctx = admission.WithWarnings(ctx, func(text string) { a.warnings = append(a.warnings, text) })
		ctx = authn.WithUser(ctx, authn.User{Name: "alice", Groups: []string{"devs"}, Extra: map[string][]string{"team": {"a"}}})
		if a.err = w.chain.Mutate(ctx, req); a.err == nil {
			a.err = w.chain.Validate(ctx, req)
		}
	})
	return a
}

// pod returns a pod with labels, which are given as key, value, key, value.
func pod(labels ...string) *corev1.Pod {
	return admissiontest.Pod(func(p *corev1.Pod) {
		if len(labels) > 0 {
			p.Labels = map[string]string{}
		}
		for i := 0; i < len(labels); i += 2 {
			p.Labels[labels[i]] = labels[i+1]
		}
	})
}

func configMap(name string, data ...string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Data: map[string]string{}}
	for i := 0; i < len(data); i += 2 {
		c.Data[data[i]] = data[i+1]
	}
	return c
}

// policy returns a ValidatingAdmissionPolicy "p" of pods, and its binding "b", which denies. spec is
// more of the policy's spec, and bound more of the binding's.
func policy(spec, bound string) string {
	return validatingOf("p", `matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["pods", "pods/*"]}]}`, spec) +
		bindingOf("b", "p", "validationActions: [Deny]", bound)
}

func validatingOf(name string, spec ...string) string {
	return document("ValidatingAdmissionPolicy", name, spec...)
}

func bindingOf(name, policy string, spec ...string) string {
	return document("ValidatingAdmissionPolicyBinding", name, append(spec, "policyName: "+policy)...)
}

// document returns the object of a kind with a spec, which is given as YAML in parts.
func document(kind, name string, spec ...string) string {
	whole := map[string]any{}
	for _, part := range spec {
		var parsed map[string]any
		if err := yaml.Unmarshal([]byte(part), &parsed); err != nil {
			panic(fmt.Sprintf("%s: %v", part, err))
		}
		maps.Copy(whole, parsed)
	}
	text, err := json.Marshal(whole)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("\n---\napiVersion: admissionregistration.k8s.io/v1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", kind, name, text)
}

// denied returns the text of the refusal of the pod p by the policy p with the binding b.
func denied(why string) string {
	return `pods "p" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ` + why
}

// expect fails the test unless the error of a has the text want; no error if want is empty.
func (a answer) expect(t testing.TB, want string) {
	t.Helper()
	switch {
	case want == "" && a.err != nil:
		t.Errorf("got the error %v, want none", a.err)
	case want != "" && (a.err == nil || a.err.Error() != want):
		t.Errorf("got  %v\nwant %s", a.err, want)
	}
}

// statusOf returns the status in an error.
func statusOf(t testing.TB, err error) metav1.Status {
	t.Helper()
	status := (*apierrors.StatusError)(nil)
	if !errors.As(err, &status) {
		t.Fatalf("got %v, which has no status", err)
	}
	return status.ErrStatus
}
