package deletion

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestEach checks what the deletion of several objects does about those that are gone, an error, and the end of its time.
func TestEach(t *testing.T) {
	pods := &corev1.PodList{}
	for i := range 5 {
		pods.Items = append(pods.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}})
	}
	broken := errors.New("broken")
	for _, tc := range []struct {
		name  string
		at3   func(end func()) error
		tried int
		says  string
	}{
		{name: "all", at3: func(func()) error { return nil }, tried: 5},
		{name: "one is gone", at3: func(func()) error { return apierrors.NewNotFound(schema.GroupResource{}, "3") }, tried: 5},
		{name: "an error", at3: func(func()) error { return broken }, tried: 4, says: "broken"},
		{name: "no time", at3: func(end func()) error { end(); return broken }, tried: 4, says: "3 of 5 objects were deleted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			tried := 0
			err := Each(ctx, pods, func(obj metav1.Object) error {
				tried++
				if obj.GetName() == "3" {
					return tc.at3(end)
				}
				return nil
			})
			if tried != tc.tried || tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("got %d objects and %v, want %d and %q", tried, err, tc.tried, tc.says)
			}
			if apierrors.IsTimeout(err) != (tc.name == "no time") {
				t.Errorf("got the error %v", err)
			}
		})
	}
}
