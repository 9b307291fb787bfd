package defaultingressclass

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func class(name, isDefault string, age time.Duration) *networkingv1.IngressClass {
	return &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age)),
		Annotations: map[string]string{"ingressclass.kubernetes.io/is-default-class": isDefault},
	}}
}

func TestDefaultIngressClass(t *testing.T) {
	type list = []*networkingv1.IngressClass
	none, own := "", "own"
	update := func(_ *networkingv1.Ingress, req *admission.Request) {
		req.Verb, req.Old = admission.Update, req.Object
	}
	for _, tc := range []struct {
		name    string
		classes list
		change  func(*networkingv1.Ingress, *admission.Request)
		want    string
	}{
		{"no class", nil, nil, "<none>"},
		{"no default", list{class("a", "false", 0), class("b", "yes", 0)}, nil, "<none>"},
		{"one default", list{class("a", "false", 0), class("b", "true", time.Hour)}, nil, "b"},
		{"the newest of several", list{class("a", "true", time.Hour), class("b", "true", time.Minute), class("c", "true", time.Hour)}, nil, "b"},
		{"the first by name of the same age", list{class("b", "true", 0), class("a", "true", 0)}, nil, "a"},
		{"a named class", list{class("a", "true", 0)}, func(i *networkingv1.Ingress, _ *admission.Request) { i.Spec.IngressClassName = &own }, "own"},
		{"an empty name", list{class("a", "true", 0)}, func(i *networkingv1.Ingress, _ *admission.Request) { i.Spec.IngressClassName = &none }, ""},
		{"a class named by the annotation", list{class("a", "true", 0)}, func(i *networkingv1.Ingress, _ *admission.Request) {
			i.Annotations = map[string]string{"kubernetes.io/ingress.class": ""}
		}, "<none>"},
		{"an update", list{class("a", "true", 0)}, update, "<none>"},
		{"a subresource", list{class("a", "true", 0)}, func(_ *networkingv1.Ingress, req *admission.Request) { req.Subresource = "status" }, "<none>"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := admissiontest.New()
			for _, c := range tc.classes {
				w.Put(c)
			}
			ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "i"}}
			req := &admission.Request{Object: ingress}
			if tc.change != nil {
				tc.change(ingress, req)
			}
			if _, err := w.Admit(t, req, Plugin(w.Objects())); err != nil {
				t.Fatal(err)
			}
			got := "<none>"
			if ingress.Spec.IngressClassName != nil {
				got = *ingress.Spec.IngressClassName
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
