package admission_test

import (
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// TestNewestDefault checks which of several defaults is chosen.
func TestNewestDefault(t *testing.T) {
	class := func(name string, age time.Duration, marked bool) *networkingv1.IngressClass {
		c := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))}}
		if marked {
			c.Annotations = map[string]string{"default": "true"}
		}
		return c
	}
	for name, tc := range map[string]struct {
		classes []*networkingv1.IngressClass
		want    string
	}{
		"none":        {},
		"none marked": {classes: []*networkingv1.IngressClass{class("a", 0, false)}},
		"one":         {[]*networkingv1.IngressClass{class("a", 0, false), class("b", time.Hour, true)}, "b"},
		"the newest":  {[]*networkingv1.IngressClass{class("a", time.Hour, true), class("b", time.Minute, true), class("c", 0, false)}, "b"},
		"of one age":  {[]*networkingv1.IngressClass{class("b", 0, true), class("a", 0, true)}, "a"},
	} {
		got, ok := admission.NewestDefault(tc.classes, func(c *networkingv1.IngressClass) bool { return c.Annotations["default"] == "true" })
		if got != tc.want || ok != (tc.want != "") {
			t.Errorf("%s: got %q, %v, want %q", name, got, ok, tc.want)
		}
	}
}
