package podcontrol_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/podcontrol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSlowStart(t *testing.T) {
	for _, test := range []struct{ count, failAfter, calls, succeeded int }{
		{0, 100, 0, 0}, {1, 100, 1, 1}, {10, 100, 10, 10},
		{10, 0, 1, 0}, {10, 1, 3, 1}, {100, 3, 7, 3}, {3, 2, 3, 2},
	} {
		t.Run(fmt.Sprintf("%d fails after %d", test.count, test.failAfter), func(t *testing.T) {
			var calls, left, succeeded atomic.Int32
			var seen sync.Map
			left.Store(int32(test.failAfter))
			got, err := podcontrol.SlowStart(test.count, func(i int) error {
				seen.Store(i, true)
				calls.Add(1)
				if left.Add(-1) < 0 {
					return errors.New("no more")
				}
				succeeded.Add(1)
				return nil
			})
			for i := range test.calls {
				if _, ok := seen.Load(i); !ok {
					t.Errorf("nothing was called with %d", i)
				}
			}
			if got != test.succeeded {
				t.Errorf("got %d successes", got)
			}
			if int(calls.Load()) != test.calls || int(succeeded.Load()) != test.succeeded || (err != nil) != (test.succeeded < test.count) {
				t.Errorf("got %d calls, %d succeeded, %v; want %d calls, %d", calls.Load(), succeeded.Load(), err, test.calls, test.succeeded)
			}
		})
	}
}

// refused returns the API's answer to a creation in a namespace that is being deleted.
func refused() error {
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("the namespace is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

// TestAsksOnceInANamespaceThatEnds checks that after such an answer nothing is created for its owner for a
// minute, but for others, whatever has become of that namespace's name.
func TestAsksOnceInANamespaceThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fake.New(scheme.New())
		control := podcontrol.Control{Pods: client.Of[*corev1.Pod](api), Kind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet")}
		create := func(uid types.UID) error {
			owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uid}}
			return control.Create(t.Context(), owner, &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}, "")
		}
		api.Fail(func(client.Call) error { return refused() })
		for range 3 {
			if err := create("old"); !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				t.Errorf("got %v, want that the namespace ends", err)
			}
		}
		if n := len(api.Writes()); n != 1 {
			t.Errorf("the API was asked %d times, want once", n)
		}
		api.Fail(nil)
		if err := create("new"); err != nil {
			t.Errorf("a new owner: %v", err)
		}
		if n := len(api.Writes()); n != 2 {
			t.Errorf("the API was asked %d times, want twice", n)
		}
		time.Sleep(61 * time.Second)
		if err := create("old"); err != nil {
			t.Errorf("after a minute, when the namespace is there: %v", err)
		}
	})
}

// TestSlowStartEndsWithItsNamespace checks that one refusal is enough where all creations will be refused.
func TestSlowStartEndsWithItsNamespace(t *testing.T) {
	var calls atomic.Int32
	succeeded, err := podcontrol.SlowStart(10, func(int) error {
		if calls.Add(1) == 1 {
			return nil
		}
		return fmt.Errorf("creating a pod: %w", refused())
	})
	if succeeded != 1 || err != nil || calls.Load() != 3 {
		t.Errorf("got %d successes, %v, after %d calls; want 1, none, after 3", succeeded, err, calls.Load())
	}
}

func TestPrefix(t *testing.T) {
	for owner, want := range map[string]string{"web": "web-", "web.example": "web.example-", "Web": "Web"} {
		if got := podcontrol.Prefix(owner); got != want {
			t.Errorf("%s: got %s, want %s", owner, got, want)
		}
	}
}
