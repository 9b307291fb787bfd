package values_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

func TestChanges(t *testing.T) {
	long := strings.Repeat("a", 33<<10)
	const tooLong = "(the differences are not shown: more than 32 KB)"
	for _, c := range []struct {
		name, before, now, want string
	}{
		{"changed", "a", "b", `- "nodeName": "a"` + "\n" + `+ "nodeName": "b"` + "\n"},
		{"same", "a", "a", ""},
		{"long before", long, "b", tooLong},
		{"long now", "a", long, tooLong},
	} {
		before, now := corev1.PodSpec{NodeName: c.before}, corev1.PodSpec{NodeName: c.now}
		if got := values.Changes(before, now); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q in it", c.name, got, c.want)
		}
	}
}
