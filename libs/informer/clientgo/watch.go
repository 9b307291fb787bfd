package clientgo

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/informer"
)

const (
	// bookmarkEvery is how often a watch with bookmarks gets one, if it has advanced since the
	// last.
	bookmarkEvery = time.Minute
	// minWatch is the minimum duration of a watch without a timeout; random jitter adds up to as
	// much again.
	minWatch = 30 * time.Minute
	// fill is about how many bytes are encoded at a time.
	fill = 64 << 10
)

// body is the response to a watch: a stream of events, encoded as they are read.
type body struct {
	ctx     context.Context //nolint:containedctx // The request's context: the body is part of the request.
	view    *view
	request *request
	release func()
	close   func()
	closed  chan struct{}

	// Only Read uses the rest.
	buffer  bytes.Buffer
	initial []informer.Object
	mark    bool // whether to mark the end of the initial events
	steps   []step
	at      cursor
	// sent is the revision up to which everything was encoded into buffer; reported is the revision
	// of the last event or bookmark.
	sent, reported     int64
	deadline, bookmark time.Time
	ended              error
}

// newBody opens a watch; false if the view does not know the changes since the requested version.
func newBody(ctx context.Context, v *view, r *request, release func()) (*body, bool) {
	now := time.Now()
	timeout := r.timeout
	if timeout == 0 {
		timeout = minWatch + rand.N(minWatch)
	}
	b := &body{
		ctx: ctx, view: v, request: r, release: release, closed: make(chan struct{}),
		deadline: now.Add(timeout), bookmark: now.Add(bookmarkEvery),
	}
	b.close = sync.OnceFunc(func() {
		close(b.closed)
		b.release()
	})
	if !r.initial && r.version > 0 {
		from, found := v.from(r.version)
		b.at, b.sent, b.reported = from, r.version, r.version
		return b, found
	}
	read := v.read(&r.selected)
	b.initial, b.mark, b.at, b.sent = read.objects, r.initial, read.at, read.revision
	return b, true
}

// Close ends the watch.
func (b *body) Close() error {
	b.close()
	return nil
}

// Read returns encoded events, and waits for more if there are none.
func (b *body) Read(p []byte) (int, error) {
	for b.buffer.Len() == 0 {
		if b.ended != nil { // Events encoded before the end are read first.
			b.close()
			return 0, b.ended
		}
		select {
		case <-b.closed:
			return 0, http.ErrBodyReadAfterClose
		default:
		}
		if err := b.next(); err != nil {
			b.ended = err
		}
	}
	return b.buffer.Read(p)
}

// next encodes something, or waits, or returns the error with which the watch ends.
func (b *body) next() error {
	switch {
	case len(b.initial) > 0:
		return b.begin()
	case b.mark:
		b.mark = false
		if b.request.bookmarks {
			return b.sendBookmark(true)
		}
		return nil
	case len(b.steps) > 0:
		s := b.steps[0]
		b.steps = b.steps[1:]
		return b.sendStep(s)
	}
	if !time.Now().Before(b.deadline) {
		return b.finish()
	}
	p := b.view.since(b.at)
	switch {
	case p.expired:
		status := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", b.sent, p.revision)).Status()
		status.Kind, status.APIVersion = "Status", "v1"
		if err := b.send(watch.Error, &status); err != nil {
			return err
		}
		return io.EOF
	case p.slow:
		return io.EOF // The client watches again from its last revision.
	case len(p.steps) > 0:
		b.steps, b.at = p.steps, p.at
		return nil
	case p.over:
		return io.EOF
	}
	return b.wait(p.moved)
}

// wait waits for the next step, and sends bookmarks in the meantime.
func (b *body) wait(moved <-chan struct{}) error {
	now := time.Now()
	due := b.deadline
	if b.request.bookmarks && b.bookmark.Before(due) {
		due = b.bookmark
	}
	timer := time.NewTimer(due.Sub(now))
	defer timer.Stop()
	select {
	case <-moved:
		return nil
	case <-b.closed:
		return http.ErrBodyReadAfterClose
	case <-b.ctx.Done():
		return b.ctx.Err()
	case <-timer.C:
	}
	if due.Equal(b.deadline) {
		return b.finish()
	}
	b.bookmark = time.Now().Add(bookmarkEvery)
	return b.report()
}

// finish ends a watch whose time is over.
func (b *body) finish() error {
	if err := b.report(); err != nil {
		return err
	}
	return io.EOF
}

// report sends a bookmark, if the client asked for bookmarks and the watch has advanced.
func (b *body) report() error {
	if !b.request.bookmarks || b.sent <= b.reported {
		return nil
	}
	return b.sendBookmark(false)
}

// begin encodes some of the initial events.
func (b *body) begin() error {
	for len(b.initial) > 0 && b.buffer.Len() < fill {
		if err := b.send(watch.Added, b.initial[0]); err != nil {
			return err
		}
		b.initial = b.initial[1:]
	}
	return nil
}

// sendStep encodes those events of a step that match the selection.
func (b *body) sendStep(s step) error {
	for _, c := range s.changes {
		what, obj := b.event(c)
		if obj == nil {
			continue
		}
		if err := b.send(what, obj); err != nil {
			return err
		}
		b.reported = c.revision
	}
	b.sent = s.revision
	if b.request.bookmarks && len(s.changes) > 0 && !s.exact && b.reported < b.sent {
		return b.sendBookmark(false) // No watch can continue from within such a step.
	}
	return nil
}

// event returns the event that a change is to the selection; no object if there is no event.
func (b *body) event(c change) (watch.EventType, informer.Object) {
	before, after := b.request.selected.matches(c.before), b.request.selected.matches(c.after)
	switch {
	case before && after:
		return watch.Modified, c.after
	case after:
		return watch.Added, c.after
	case before:
		return watch.Deleted, at(c.before, c.revision)
	}
	return "", nil
}

func (b *body) sendBookmark(end bool) error {
	obj := b.request.kind.New()
	obj.SetResourceVersion(strconv.FormatInt(b.sent, 10))
	if end {
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	b.reported = b.sent
	return b.send(watch.Bookmark, obj)
}

// send encodes one event. In JSON, each event is a line; in protobuf, each is preceded by its
// length.
func (b *body) send(what watch.EventType, obj runtime.Object) error {
	if stored, ok := obj.(informer.Object); ok && b.request.format.partial {
		obj = partial(stored)
	}
	var encoded bytes.Buffer
	if err := b.request.format.info.Serializer.Encode(obj, &encoded); err != nil {
		return fmt.Errorf("encoding a watch event: %w", err)
	}
	if b.request.format.info.EncodesAsText {
		b.buffer.WriteString(`{"type":"` + string(what) + `","object":`)
		b.buffer.Write(bytes.TrimRight(encoded.Bytes(), "\n"))
		b.buffer.WriteString("}\n")
		return nil
	}
	// A WatchEvent has a type and a RawExtension, whose only field is the object's bytes.
	raw := encoded.Bytes()
	message := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), string(what))
	message = protowire.AppendTag(message, 2, protowire.BytesType)
	message = protowire.AppendVarint(message, uint64(protowire.SizeTag(1)+protowire.SizeBytes(len(raw)))) //nolint:gosec // It is positive.
	message = protowire.AppendBytes(protowire.AppendTag(message, 1, protowire.BytesType), raw)
	b.buffer.Write(binary.BigEndian.AppendUint32(nil, uint32(len(message)))) //nolint:gosec // An object is far smaller.
	b.buffer.Write(message)
	return nil
}
