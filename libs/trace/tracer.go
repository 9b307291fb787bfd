package trace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
)

// Header is the HTTP header of a distributed trace (https://www.w3.org/TR/trace-context/).
const Header = "Traceparent"

// Tracer turns recorded hops into spans of a distributed trace. Package spans implements it.
type Tracer interface {
	// Hop creates a span of a hop, some time later.
	Hop(hop Hop)
	// Begin starts the span of a request. If believed is set, it continues the trace in the
	// request's header. It returns the request's context, and a function that ends the span.
	Begin(ctx context.Context, header string, believed bool, name string, attributes map[string]string) (context.Context, func(status int))
	// Writing records that the request of ctx begins to write an object. If that is traced, it
	// returns the note that the other processes have to Learn.
	Writing(ctx context.Context, object Ref) (note Note, traced bool)
	// Continue returns a context whose writes belong to the trace of an object's latest write.
	Continue(ctx context.Context, object Ref) context.Context
	// Parent returns the trace of an object's latest write, as in Header; empty if it has none.
	Parent(object Ref) string
	// Learn records a note that Writing returned in another process.
	Learn(note Note)
}

// Note announces to other processes that a traced write of an object begins.
type Note struct {
	// Object is the digest of the object: not every process that receives the note may know the
	// names of objects.
	Object string `json:"object"`
	// Parent is the write's span, as in Header.
	Parent string `json:"parent"`
}

// Digest returns the name of an object in notes.
func (r Ref) Digest() string {
	sum := sha256.Sum256([]byte(r.Resource + "\x00" + r.Namespace + "\x00" + r.Name))
	return hex.EncodeToString(sum[:16])
}

// To makes tracer create spans of hops recorded from now on, and returns the recorder. Call it
// before others use the recorder.
func (r *Recorder) To(tracer Tracer) *Recorder {
	r.tracer = tracer
	return r
}

// Begin is Tracer.Begin; without a tracer it does nothing.
func (r *Recorder) Begin(ctx context.Context, header string, believed bool, name string,
	attributes map[string]string) (context.Context, func(status int)) {
	if !r.Traced() {
		return ctx, func(int) {}
	}
	return r.tracer.Begin(ctx, header, believed, name, attributes)
}

// Writing is Tracer.Writing, and passes the note to the function of OnWriting. Without a tracer it does
// nothing.
func (r *Recorder) Writing(ctx context.Context, object Ref) {
	if !r.Traced() {
		return
	}
	note, traced := r.tracer.Writing(ctx, object)
	if announce := r.announce.Load(); traced && announce != nil {
		(*announce)(note)
	}
}

// OnWriting sets the function that announces traced writes to other processes. It must not block.
func (r *Recorder) OnWriting(announce func(note Note)) {
	if r != nil {
		r.announce.Store(&announce)
	}
}

// Continue is Tracer.Continue; without a tracer it returns ctx.
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

// Traced reports whether there is a tracer.
func (r *Recorder) Traced() bool { return r != nil && r.tracer != nil }

type headerKey struct{}

// WithHeader returns a context whose API calls carry header, the trace that they belong to.
func WithHeader(ctx context.Context, header string) context.Context {
	return context.WithValue(ctx, headerKey{}, header)
}

// HeaderOf returns the header that calls with this context carry; empty for none.
func HeaderOf(ctx context.Context) string {
	header, _ := ctx.Value(headerKey{}).(string)
	return header
}
