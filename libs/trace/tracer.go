package trace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
)

// Header is the HTTP header of a distributed trace (https://www.w3.org/TR/trace-context/).
const Header = "Traceparent"

// Tracer makes spans of a distributed trace of what is recorded. Package spans has one.
type Tracer interface {
	// Hop makes a span of a hop, some time later.
	Hop(hop Hop)
	// Begin starts the span of a request; believed says whether the trace that its header names
	// is to be continued. It returns the request's context, and what ends the span.
	Begin(ctx context.Context, header string, believed bool, name string, attributes map[string]string) (context.Context, func(status int))
	// Writing says that the request of ctx begins to write an object. If that is traced it gives
	// what the other processes have to Learn.
	Writing(ctx context.Context, object Ref) (note Note, traced bool)
	// Continue gives a context whose writes belong to the trace of an object's latest write.
	Continue(ctx context.Context, object Ref) context.Context
	// Parent is the trace of an object's latest write, as in Header; empty if it has none.
	Parent(object Ref) string
	// Learn takes what Writing of another process has given.
	Learn(note Note)
}

// Note tells other processes that a traced write of an object begins.
type Note struct {
	// Object is the digest of what is written: who hears the note need not be one who may know
	// the names of objects.
	Object string `json:"object"`
	// Parent is the write's span, as in Header.
	Parent string `json:"parent"`
}

// Digest names an object in notes.
func (r Ref) Digest() string {
	sum := sha256.Sum256([]byte(r.Resource + "\x00" + r.Namespace + "\x00" + r.Name))
	return hex.EncodeToString(sum[:16])
}

// To has a tracer make spans of what is recorded from now on, and gives the recorder back. It is
// called before the recorder is used by others.
func (r *Recorder) To(tracer Tracer) *Recorder {
	r.tracer = tracer
	return r
}

// Begin is Tracer.Begin; without a tracer it does nothing.
func (r *Recorder) Begin(ctx context.Context, header string, believed bool, name string, attributes map[string]string) (context.Context, func(status int)) {
	if !r.Traced() {
		return ctx, func(int) {}
	}
	return r.tracer.Begin(ctx, header, believed, name, attributes)
}

// Writing is Tracer.Writing, and tells the others. Without a tracer it does nothing.
func (r *Recorder) Writing(ctx context.Context, object Ref) {
	if !r.Traced() {
		return
	}
	note, traced := r.tracer.Writing(ctx, object)
	if tell := r.tell.Load(); traced && tell != nil {
		(*tell)(note)
	}
}

// Tell has other processes told of traced writes from now on, by a function that does not wait.
func (r *Recorder) Tell(tell func(note Note)) {
	if r != nil {
		r.tell.Store(&tell)
	}
}

// Continue is Tracer.Continue; without a tracer it gives ctx back.
func (r *Recorder) Continue(ctx context.Context, object Ref) context.Context {
	if !r.Traced() {
		return ctx
	}
	return r.tracer.Continue(ctx, object)
}

// Parent is Tracer.Parent; empty without a tracer.
func (r *Recorder) Parent(object Ref) string {
	if !r.Traced() {
		return ""
	}
	return r.tracer.Parent(object)
}

// Learn is Tracer.Learn; without a tracer it does nothing.
func (r *Recorder) Learn(note Note) {
	if r.Traced() {
		r.tracer.Learn(note)
	}
}

// Traced says whether there is a tracer.
func (r *Recorder) Traced() bool { return r != nil && r.tracer != nil }

type headerKey struct{}

// WithHeader gives a context whose calls to the API say in Header that they belong to a trace.
func WithHeader(ctx context.Context, header string) context.Context {
	return context.WithValue(ctx, headerKey{}, header)
}

// HeaderOf is what calls with this context say in Header; empty for nothing.
func HeaderOf(ctx context.Context) string {
	header, _ := ctx.Value(headerKey{}).(string)
	return header
}
