package deletion

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seven lets pods run for seven seconds, or as long as the client wants.
func seven(_ scheme.Object, opts *metav1.DeleteOptions) *int64 {
	if opts.GracePeriodSeconds != nil {
		return opts.GracePeriodSeconds
	}
	return new(int64(7))
}

// definition returns the definition of pods, which are deleted gracefully or at once.
func definition(graceful bool) *kinds.Definition {
	d := &kinds.Definition{Kind: scheme.For[*corev1.Pod](scheme.New())}
	if graceful {
		d.Grace = seven
	}
	return d
}

func describe(n *int64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

// TestMark checks what a deletion leaves of an object.
func TestMark(t *testing.T) {
	type object = metav1.ObjectMeta
	for _, tc := range []struct {
		name     string
		graceful bool
		object   object
		opts     metav1.DeleteOptions
		want     string // finalizers, period, whether to remove it; empty if err is not
		err      string
	}{
		{name: "at once", err: ErrNow.Error()},
		{name: "gracefully", graceful: true, want: "[] 7 false"},
		{name: "gracefully, in no time", graceful: true, opts: metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, want: "[] 0 true"},
		{name: "in less than no time", graceful: true, opts: metav1.DeleteOptions{GracePeriodSeconds: new(int64(-5))}, want: "[] 1 false"},
		{name: "held", object: object{Finalizers: []string{"a/b"}}, want: "[a/b] 0 false"},
		{name: "held, in no time", graceful: true, object: object{Finalizers: []string{"a/b"}}, opts: metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, want: "[a/b] 0 false"},
		{name: "orphaning", opts: metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}, want: "[orphan] 0 false"},
		{name: "in the foreground", opts: metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}, want: "[foregroundDeletion] 0 false"},
		{
			name: "in the background after all", object: object{Finalizers: []string{"foregroundDeletion"}},
			opts: metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}, err: ErrNow.Error(),
		},
		{name: "again", graceful: true, object: object{DeletionTimestamp: &metav1.Time{}, DeletionGracePeriodSeconds: new(int64(5))}, err: ErrPending.Error()},
		{
			name: "again, sooner", graceful: true, object: object{DeletionTimestamp: &metav1.Time{}, DeletionGracePeriodSeconds: new(int64(5))},
			opts: metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, want: "[] 0 true",
		},
		{name: "another uid", opts: metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID("x"))}}, err: "the UID in the precondition (x) does not match the UID in record (u)"},
		{name: "the uid", opts: metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID("u"))}}, err: ErrNow.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc.object.Name, tc.object.UID = "p", "u"
				if tc.object.DeletionTimestamp != nil {
					tc.object.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(5 * time.Second)}
				}
				obj, last, err := Mark(definition(tc.graceful), &corev1.Pod{ObjectMeta: tc.object}, tc.opts)
				if err != nil {
					if tc.err == "" || !strings.Contains(err.Error(), tc.err) || !errors.Is(err, ErrNow) && !errors.Is(err, ErrPending) && !apierrors.IsConflict(err) {
						t.Errorf("got %v, want %q", err, tc.err)
					}
					return
				}
				got := fmt.Sprintf("%v %s %v", obj.GetFinalizers(), describe(obj.GetDeletionGracePeriodSeconds()), last)
				if tc.err != "" || got != tc.want || obj.GetDeletionTimestamp() == nil {
					t.Errorf("got %s, at %v, want %s%s", got, obj.GetDeletionTimestamp(), tc.want, tc.err)
				}
			})
		})
	}
}

// TestRequest checks what admission plugins are asked.
func TestRequest(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	deleted := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", DeletionTimestamp: &metav1.Time{}, DeletionGracePeriodSeconds: new(int64(5))}}
	for _, tc := range []struct {
		name     string
		graceful bool
		pod      *corev1.Pod
		one      One
		want     string // namespace, name, period, dry run
	}{
		{"at once", false, pod, One{Namespace: "ns", Name: "p", Within: "ns"}, "ns/p - false"},
		{"at once, in less than no time", false, pod, One{Namespace: "ns", Name: "p", Within: "ns", Options: metav1.DeleteOptions{GracePeriodSeconds: new(int64(-5))}}, "ns/p 1 false"},
		{"gracefully", true, pod, One{Namespace: "ns", Name: "p", Within: "ns"}, "ns/p 7 false"},
		{"gracefully, sooner", true, pod, One{Namespace: "ns", Name: "p", Within: "ns", Options: metav1.DeleteOptions{GracePeriodSeconds: new(int64(2))}}, "ns/p 2 false"},
		{"again", true, deleted, One{Namespace: "ns", Name: "p", Within: "ns", Options: metav1.DeleteOptions{GracePeriodSeconds: new(int64(2))}}, "ns/p 2 false"},
		{"dry", true, pod, One{Namespace: "ns", Name: "p", Within: "ns", Options: metav1.DeleteOptions{DryRun: []string{"All"}}}, "ns/p 7 true"},
		{"a collection", true, pod, One{Namespace: "ns", Name: "p", Within: "ns", Collection: true}, "ns/ - false"},
		{"a collection of all namespaces", true, pod, One{Namespace: "ns", Name: "p", Collection: true, Options: metav1.DeleteOptions{GracePeriodSeconds: new(int64(-5))}}, "/ -5 false"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kind := definition(tc.graceful)
			req := tc.one.Request(kind.Kind, kind, tc.pod)
			opts, ok := req.Options.(*metav1.DeleteOptions)
			if !ok || opts.Kind != "DeleteOptions" || req.Verb != "delete" || req.Kind != kind.Kind || req.Object != nil || req.Old != nil {
				t.Fatalf("got %+v", req)
			}
			if got := fmt.Sprintf("%s/%s %s %v", req.Namespace, req.Name, describe(opts.GracePeriodSeconds), req.DryRun); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
