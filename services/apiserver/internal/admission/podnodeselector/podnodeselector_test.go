package podnodeselector

import (
	"maps"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const conflict = `pods "p" is forbidden: pod node label selector conflicts with its namespace node label selector`
const notAllowed = `pods "p" is forbidden: pod node label selector labels conflict with its namespace whitelist`

func TestPodNodeSelector(t *testing.T) {
	type set = map[string]string
	text := func(s string) *string { return &s }
	const clusterDefault = "podNodeSelectorPluginConfig:\n  clusterDefaultNodeSelector: infra=false\n"
	for _, tc := range []struct {
		name, document string
		annotation     *string
		pod, want      set
		fault          string
	}{
		{"nothing", "", nil, nil, nil, ""},
		{"the pod's own", "", nil, set{"a": "b"}, set{"a": "b"}, ""},
		{"the default", clusterDefault, nil, nil, set{"infra": "false"}, ""},
		{"the default and the pod's", clusterDefault, nil, set{"a": "b"}, set{"a": "b", "infra": "false"}, ""},
		{"against the default", clusterDefault, nil, set{"infra": "true"}, nil, conflict},
		{"the namespace's", clusterDefault, text("infra = true,x=y"), nil, set{"infra": "true", "x": "y"}, ""},
		{"an empty one of the namespace", clusterDefault, text(""), set{"a": "b"}, set{"a": "b"}, ""},
		{"against the namespace's", "", text("infra=true"), set{"infra": "false"}, nil, conflict},
		{"a faulty one of the namespace", "", text("infra"), nil, nil, "invalid selector: [infra]"},
		{"allowed", clusterDefault + "  ns: infra=false,a=b\n", nil, set{"a": "b"}, set{"a": "b", "infra": "false"}, ""},
		{"a label that is not allowed", clusterDefault + "  ns: infra=false,a=b\n", nil, set{"c": "d"}, nil, notAllowed},
		{"a value that is not allowed", clusterDefault + "  ns: infra=false,a=b\n", nil, set{"a": "c"}, nil, notAllowed},
		{"a default that is not allowed", clusterDefault + "  ns: a=b\n", nil, nil, nil, notAllowed},
		{"the list of another namespace", clusterDefault + "  other: a=b\n", nil, set{"c": "d"}, set{"c": "d", "infra": "false"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			namespace := admissiontest.Namespace("ns", corev1.NamespaceActive)
			if tc.annotation != nil {
				namespace.Annotations = map[string]string{annotation: *tc.annotation}
			}
			w := admissiontest.New(namespace)
			p, err := Plugin(w.Objects(), []byte(tc.document))
			if err != nil {
				t.Fatal(err)
			}
			pod := admissiontest.Pod(func(p *corev1.Pod) { p.Spec.NodeSelector = maps.Clone(tc.pod) })
			_, err = w.Admit(t, &admission.Request{Object: pod}, p)
			if got := message(err); got != tc.fault {
				t.Errorf("got  %s\nwant %s", got, tc.fault)
			}
			if err == nil && !maps.Equal(pod.Spec.NodeSelector, tc.want) {
				t.Errorf("got %v, want %v", pod.Spec.NodeSelector, tc.want)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestOtherRequests(t *testing.T) {
	w := admissiontest.New()
	p, err := Plugin(w.Objects(), []byte("podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: a=b}"))
	if err != nil {
		t.Fatal(err)
	}
	pod := admissiontest.Pod()
	for _, req := range []*admission.Request{
		{Verb: admission.Update, Object: pod, Old: pod}, {Object: pod, Subresource: "eviction"}, {Verb: admission.Delete, Old: pod}, {Object: &corev1.Node{}},
	} {
		if _, err := w.Admit(t, req, p); err != nil || pod.Spec.NodeSelector != nil {
			t.Errorf("%s %s: got %v, %v", req.Verb, req.Subresource, err, pod.Spec.NodeSelector)
		}
	}
	// A later plugin may have changed the selector.
	changed := admissiontest.Pod(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "c"} })
	if err := p.Validate(t.Context(), &admission.Request{Verb: admission.Create, Namespace: "ns", Object: changed}); message(err) != conflict {
		t.Errorf("got %v, want %s", err, conflict)
	}
	err = p.Mutate(t.Context(), &admission.Request{Verb: admission.Create, Namespace: "none", Object: pod})
	if !apierrors.IsInternalError(err) || err.Error() != "Internal error occurred: namespace none does not exist" {
		t.Errorf("without the namespace: got %v", err)
	}
}

func TestFaultyConfiguration(t *testing.T) {
	for text, want := range map[string]string{
		"podNodeSelectorPluginConfig: {a: b}":       "podNodeSelectorPluginConfig[a]: invalid selector: [b]",
		"podNodeSelectorPluginConfig: {a: {b: c}}":  "cannot unmarshal object",
		"podNodeSelectorPlugin: {a: b=c}":           `unknown field "podNodeSelectorPlugin"`,
		"podNodeSelectorPluginConfig: {a: b=c}\n\t": "failed decoding",
	} {
		if _, err := Plugin(admission.Objects{}, []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
