package trace_test

import (
	"context"
	"testing"

	"github.com/garboard/garboard/libs/trace"
)

// heard is a tracer that counts calls.
type heard struct {
	hops, written, learned int
}

func (h *heard) Hop(trace.Hop) { h.hops++ }
func (h *heard) Begin(ctx context.Context, header string, _ bool, _ string, _ map[string]string) (context.Context, func(int)) {
	return trace.WithHeader(ctx, header), func(int) {}
}
func (h *heard) Writing(context.Context, trace.Ref) (trace.Note, bool) {
	h.written++
	return trace.Note{}, true
}
func (h *heard) Continue(ctx context.Context, object trace.Ref) context.Context {
	return trace.WithHeader(ctx, object.Name)
}
func (h *heard) Parent(object trace.Ref) string { return object.Name }
func (h *heard) Learn(trace.Note)               { h.learned++ }

func TestRecorderCallsItsTracer(t *testing.T) {
	h := &heard{}
	for _, r := range []*trace.Recorder{nil, trace.NewRecorder(1), trace.NewRecorder(1).To(h)} {
		object := trace.Ref{Resource: "pods", Name: "p"}
		r.Record(trace.Hop{})
		told := 0
		r.Writing(t.Context(), object)
		r.OnWriting(func(trace.Note) { told++ })
		r.Writing(t.Context(), object)
		if (told == 1) != r.Traced() {
			t.Errorf("notes were announced %d times", told)
		}
		r.Learn(trace.Note{})
		ctx, end := r.Begin(t.Context(), "x", true, "request", nil)
		end(200)
		want := [3]string{}
		if r.Traced() {
			want = [3]string{"x", "p", "p"}
		}
		if got := [3]string{trace.HeaderOf(ctx), trace.HeaderOf(r.Continue(t.Context(), object)), r.Parent(object)}; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if *h != (heard{hops: 1, written: 2, learned: 1}) {
		t.Errorf("the tracer's calls are %+v", h)
	}
}

func TestDigest(t *testing.T) {
	seen := map[string]trace.Ref{}
	for _, object := range []trace.Ref{{}, {Resource: "a", Namespace: "b", Name: "c"}, {Resource: "ab", Name: "c"}, {Namespace: "ab", Name: "c"}, {Resource: "a", Name: "bc"}} {
		digest := object.Digest()
		if other, there := seen[digest]; there || len(digest) != 32 {
			t.Errorf("%+v and %+v have the digest %s", object, other, digest)
		}
		seen[digest] = object
	}
}
