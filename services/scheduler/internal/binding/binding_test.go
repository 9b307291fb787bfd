package binding_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/scheduler/internal/binding"
)

type recorder []string

func (r *recorder) Event(obj scheme.Object, eventType, reason, format string, args ...any) {
	*r = append(*r, fmt.Sprintf("%s %s %s: ", eventType, reason, obj.GetName())+fmt.Sprintf(format, args...))
}

func setUp(t *testing.T) (*binding.Binder, *fake.Client, *corev1.Pod, *recorder) {
	t.Helper()
	api := fake.New(scheme.New(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Generation: 3}})
	events := &recorder{}
	return binding.New(api, events, trace.NewRecorder(1)), api, get(t, api), events
}

func get(t *testing.T, api client.Interface) *corev1.Pod {
	t.Helper()
	pod, err := client.Of[*corev1.Pod](api).Get(t.Context(), "default", "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestBind(t *testing.T) {
	b, api, pod, events := setUp(t)
	if err := b.Bind(t.Context(), pod, "n", time.Now()); err != nil {
		t.Fatal(err)
	}
	if node := get(t, api).Spec.NodeName; node != "n" {
		t.Errorf("got the pod on %q, want n", node)
	}
	if want := "Normal Scheduled p: Successfully assigned default/p to n"; len(*events) != 1 || (*events)[0] != want {
		t.Errorf("got events %q, want %q", *events, want)
	}
	// A second scheduler does no harm.
	if err := b.Bind(t.Context(), pod, "other", time.Now()); !apierrors.IsConflict(err) {
		t.Errorf("binding a bound pod: got %v, want a conflict", err)
	}
	if node := get(t, api).Spec.NodeName; node != "n" || len(*events) != 1 {
		t.Errorf("got the pod on %q, events %q", node, *events)
	}
}

// TestBindOfAnotherUID: a pod that was created anew under the same name is another pod.
func TestBindOfAnotherUID(t *testing.T) {
	b, api, pod, events := setUp(t)
	pod.UID = "another"
	if err := b.Bind(t.Context(), pod, "n", time.Now()); err == nil {
		t.Error("got no error for another UID")
	}
	if node := get(t, api).Spec.NodeName; node != "" || len(*events) != 0 {
		t.Errorf("got the pod on %q, events %q", node, *events)
	}
}

func TestFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, api, pod, events := setUp(t)
		fail := func(reason, message string, writes int) corev1.PodCondition {
			t.Helper()
			api.ClearCalls()
			if err := b.Fail(t.Context(), get(t, api), reason, message); err != nil {
				t.Fatal(err)
			}
			if n := len(api.Writes()); n != writes {
				t.Errorf("got %d writes for %q, want %d", n, message, writes)
			}
			conditions := get(t, api).Status.Conditions
			if len(conditions) != 1 {
				t.Fatalf("got conditions %+v", conditions)
			}
			return conditions[0]
		}
		first := fail(binding.Unschedulable, "0/1 nodes", 1)
		if first.Type != corev1.PodScheduled || first.Status != corev1.ConditionFalse || first.Reason != "Unschedulable" ||
			first.Message != "0/1 nodes" || first.ObservedGeneration != pod.Generation {
			t.Errorf("got condition %+v", first)
		}
		time.Sleep(time.Minute)
		fail(binding.Unschedulable, "0/1 nodes", 0) // The condition says so already.
		later := fail(binding.SchedulerError, "100% broken", 1)
		if later.Message != "100% broken" || !later.LastTransitionTime.Equal(&first.LastTransitionTime) {
			t.Errorf("got condition %+v", later)
		}
		if len(*events) != 3 || (*events)[2] != "Warning FailedScheduling p: 100% broken" {
			t.Errorf("got events %q", *events)
		}
		refused := errors.New("read only")
		api.Fail(func(call client.Call) error { return refused })
		if err := b.Fail(t.Context(), pod, binding.Unschedulable, "again"); !errors.Is(err, refused) || !strings.Contains(err.Error(), "default/p") {
			t.Errorf("Fail returned %v, want the API's error", err)
		}
	})
}
