package objectmeta_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry/objectmeta"
)

// TestFill fills the metadata of a pod whose client has chosen all of it.
func TestFill(t *testing.T) {
	old := metav1.NewTime(time.Unix(1, 0))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "p", UID: "u", CreationTimestamp: old, DeletionTimestamp: &old, DeletionGracePeriodSeconds: new(int64(1)), Generation: 7,
	}}
	pod.SetSelfLink("s")
	objectmeta.Wipe(pod)
	if pod.UID != "" || !pod.CreationTimestamp.IsZero() || pod.DeletionTimestamp != nil || pod.DeletionGracePeriodSeconds != nil || pod.GetSelfLink() != "" {
		t.Errorf("wiped: %+v", pod.ObjectMeta)
	}
	objectmeta.Fill(pod, scheme.For[*corev1.Pod](scheme.New()))
	if pod.Name != "p" || len(pod.UID) != 36 || time.Since(pod.CreationTimestamp.Time) > time.Minute || pod.Generation != 0 || pod.Kind != "Pod" || pod.APIVersion != "v1" {
		t.Errorf("filled: %+v", pod)
	}
}

func TestGenerateName(t *testing.T) {
	for _, prefix := range []string{"", "web-", strings.Repeat("x", 58), strings.Repeat("x", 90)} {
		name := objectmeta.GenerateName(prefix)
		kept := prefix[:min(len(prefix), 58)]
		if len(name) != len(kept)+5 || !strings.HasPrefix(name, kept) || name == objectmeta.GenerateName(prefix) {
			t.Errorf("%q: got %q", prefix, name)
		}
	}
}
