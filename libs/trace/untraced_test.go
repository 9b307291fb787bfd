package trace_test

import (
	"context"
	"testing"

	"github.com/garboard/garboard/libs/trace"
)

// TestWithoutATracer: every part of a service may trace, whether or not there is a tracer, or even
// a recorder.
func TestWithoutATracer(t *testing.T) {
	object := trace.Ref{Resource: "pods", Namespace: "default", Name: "web"}
	for name, r := range map[string]*trace.Recorder{"no recorder": nil, "no tracer": trace.NewRecorder(1)} {
		r.OnWriting(func(note trace.Note) { t.Errorf("%s: %v was announced", name, note) })
		ctx, end := r.Begin(t.Context(), "00-trace", true, "GET", nil)
		end(200)
		r.Writing(ctx, object)
		r.Learn(trace.Note{Object: object.Digest(), Parent: "p"})
		if r.Traced() || r.Parent(object) != "" || ctx != t.Context() || r.Continue(ctx, object) != ctx {
			t.Errorf("%s: something is traced", name)
		}
	}
}

// TestDigestsDiffer: the digest of an object names it among all others, also among those whose names look
// the same when they are put together.
func TestDigestsDiffer(t *testing.T) {
	seen := map[string]trace.Ref{}
	for _, ref := range []trace.Ref{
		{}, {Resource: "pods", Name: "a"}, {Resource: "pods", Namespace: "a"}, {Resource: "podsa"}, {Resource: "pod", Name: "sa"},
		{Resource: "pods", Namespace: "a", Name: "b"}, {Resource: "pods", Namespace: "ab"}, {Resource: "pods", Namespace: "b", Name: "a"},
	} {
		digest := ref.Digest()
		if other, taken := seen[digest]; taken || len(digest) != 32 || digest != ref.Digest() {
			t.Errorf("the digest of %v is %s, as that of %v", ref, digest, other)
		}
		seen[digest] = ref
	}
	ctx, cancel := context.WithCancel(trace.WithHeader(t.Context(), "h"))
	defer cancel()
	if got := trace.HeaderOf(ctx); got != "h" {
		t.Errorf("the header is %q", got)
	}
	if got := trace.HeaderOf(t.Context()); got != "" {
		t.Errorf("without one the header is %q", got)
	}
}
