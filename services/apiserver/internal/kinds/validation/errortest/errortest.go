// Package errortest compares validation errors with what a test expects.
package errortest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Exactly fails the test unless errs are exactly these errors, in this order.
func Exactly(t *testing.T, errs field.ErrorList, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, texts(errs)); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

// Contain fails the test unless each text occurs in the errors; without texts there must be no
// errors.
func Contain(t *testing.T, errs field.ErrorList, want ...string) {
	t.Helper()
	all := strings.Join(texts(errs), "\n")
	if len(want) == 0 && len(errs) > 0 {
		t.Errorf("it is refused:\n%s", all)
	}
	for _, text := range want {
		if !strings.Contains(all, text) {
			t.Errorf("%q is not in\n%s", text, all)
		}
	}
}

func texts(errs field.ErrorList) []string {
	var texts []string
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return texts
}
