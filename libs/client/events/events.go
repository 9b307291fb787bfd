// Package events records what happens to API objects as Events, which people read with kubectl
// describe. It uses client-go's tools/record to count or combine similar events, and to rate-limit
// a source that emits too many events about one object.
package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/scheme"
)

const (
	// queueLength limits the queue of unwritten events (client-go, record.maxQueuedEvents).
	queueLength = 1000
	// maxTries limits the attempts to write one event, and retryDelay is the pause between two
	// attempts (client-go, record.maxTriesPerEvent and defaultSleepDuration).
	maxTries   = 12
	retryDelay = 10 * time.Second
	// maxMessage limits an event's message, in bytes (events.k8s.io, noteLengthLimit).
	maxMessage = 1024
	// drainTime bounds the writing of queued events after the context of Run has ended.
	drainTime = 2 * time.Second
)

// Recorder writes Events on behalf of one component. It is safe for concurrent use; a nil *Recorder
// records nothing.
type Recorder struct {
	events client.Resource[*corev1.Event]
	table  *scheme.Table
	source corev1.EventSource
	queue  chan *corev1.Event
	// correlator combines events. unsent is one that Run could not write before it ended; nil if there is
	// none. Both belong to Run.
	correlator *record.EventCorrelator
	unsent     *record.EventCorrelateResult
	dropped    atomic.Int64
	last       atomic.Int64 // the number in the latest event's name
	logger     *slog.Logger
}

// New returns a recorder for a component, for example "deployment-controller", on a host, which may
// be empty. It queues events at once and writes them while Run runs.
func New(c client.Interface, component, host string) *Recorder {
	return &Recorder{
		events:     client.Of[*corev1.Event](c),
		table:      c.Table(),
		source:     corev1.EventSource{Component: component, Host: host},
		queue:      make(chan *corev1.Event, queueLength),
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{}),
		logger:     slog.New(slog.DiscardHandler),
	}
}

// WithLogger sets the logger for events that could not be written, and returns the recorder. It
// must be called before Run.
func (r *Recorder) WithLogger(logger *slog.Logger) *Recorder {
	if logger != nil {
		r.logger = logger.With("component", r.source.Component)
	}
	return r
}

// Event queues an event about obj. The type is corev1.EventTypeNormal or corev1.EventTypeWarning,
// the reason one word in UpperCamelCase, the message a format with its arguments. It never blocks:
// if the queue is full it drops the event, and Run logs the number of dropped events.
func (r *Recorder) Event(obj scheme.Object, eventType, reason, format string, args ...any) {
	r.AnnotatedEvent(obj, nil, eventType, reason, format, args...)
}

// AnnotatedEvent is Event with annotations on the event.
func (r *Recorder) AnnotatedEvent(obj scheme.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	if r == nil {
		return
	}
	ref, err := reference.GetReference(r.table.Scheme(), obj)
	if err != nil {
		r.logger.Error("could not create an event about an object", "reason", reason, "err", err)
		return
	}
	r.EventAbout(ref, annotations, eventType, reason, format, args...)
}

// EventAbout is AnnotatedEvent about the object that a reference names, for example one container
// of a pod (its FieldPath is spec.containers{name}). It truncates messages of more than 1 KiB.
func (r *Recorder) EventAbout(ref *corev1.ObjectReference, annotations map[string]string, eventType, reason, format string, args ...any) {
	if r == nil {
		return
	}
	message := format
	if len(args) > 0 {
		message = fmt.Sprintf(format, args...)
	}
	now := metav1.Now()
	namespace := ref.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: eventName(ref.Name, r.unique(now.UnixNano())), Namespace: namespace, Annotations: annotations,
		},
		InvolvedObject: *ref, Reason: reason, Message: Cut(message, maxMessage), Type: eventType,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: r.source, ReportingController: r.source.Component, ReportingInstance: r.source.Host,
	}
	select {
	case r.queue <- event:
	default:
		r.dropped.Add(1)
	}
}

// Cut returns text in a form that an API object may contain: valid UTF-8 of at most limit bytes. If
// it truncates the text, the last three bytes are dots.
func Cut(text string, limit int) string {
	const dots, unknown = "...", "\uFFFD"
	if len(text) <= limit && utf8.ValidString(text) {
		return text
	}
	cut := len(text) > limit
	text = strings.ToValidUTF8(text[:min(len(text), limit)], unknown)
	if cut || len(text) > limit {
		end := max(0, min(len(text), limit-len(dots)))
		for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end] + dots[:min(limit, len(dots))]
	}
	return text
}

// unique returns a number that it has not returned before: the time, unless two events share it.
func (r *Recorder) unique(nanoseconds int64) int64 {
	for {
		last := r.last.Load()
		next := max(nanoseconds, last+1)
		if r.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

// eventName returns a name that is unique enough and within the length limit of names.
func eventName(object string, nanoseconds int64) string {
	suffix := fmt.Sprintf(".%x", nanoseconds)
	const longest = 253 // k8s.io/apimachinery/pkg/util/validation, DNS1123SubdomainMaxLength
	if len(object)+len(suffix) > longest {
		object = object[:longest-len(suffix)]
	}
	return object + suffix
}

// Run writes queued events until ctx ends, and then, for a short while, those still queued. The
// writes carry no fence: an event reports what a leader did, and stays true after another has taken
// over. Run may be called again after it has returned: it goes on with what it could not write.
func (r *Recorder) Run(ctx context.Context) error {
	ctx = fence.Without(ctx)
	for {
		if r.unsent != nil {
			r.write(ctx)
		}
		if ctx.Err() != nil { // The next event must not take the place of one that was not sent.
			r.drain(ctx)
			return nil
		}
		select {
		case <-ctx.Done():
		case event := <-r.queue:
			r.unsent = r.correlate(event)
		}
		if n := r.dropped.Swap(0); n > 0 {
			r.logger.Warn("events were dropped: too many were waiting to be written", "count", n)
		}
	}
}

func (r *Recorder) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	for {
		if r.unsent != nil {
			if err := r.send(ctx, r.unsent); err != nil && !r.refused(r.unsent.Event, err) {
				return // The apiserver is gone or shutting down; further attempts would only take time.
			}
			r.unsent = nil
		}
		select {
		case event := <-r.queue:
			r.unsent = r.correlate(event)
		default:
			return
		}
	}
}

// write writes the unsent event. It retries while the apiserver does not answer, until ctx ends.
func (r *Recorder) write(ctx context.Context) {
	event := r.unsent.Event
	for try := 1; ; try++ {
		err := r.send(ctx, r.unsent)
		if err == nil || r.refused(event, err) {
			break
		}
		if ctx.Err() != nil {
			return
		}
		if try == maxTries {
			r.logger.Error("could not write an event", "namespace", event.Namespace, "name", event.Name,
				"reason", event.Reason, "tries", try, "err", err)
			break
		}
		delay := retryDelay
		if try == 1 {
			// Spread the first retries of all clients that lost the apiserver at the same moment.
			delay = time.Duration(float64(delay) * rand.Float64())
		}
		if !backoff.Sleep(ctx, delay) {
			return
		}
	}
	r.unsent = nil
}

// refused reports whether an error is the apiserver's answer, after which trying again is of no use.
func (r *Recorder) refused(event *corev1.Event, err error) bool {
	if _, refused := errors.AsType[*apierrors.StatusError](err); !refused {
		return false
	}
	if !apierrors.IsAlreadyExists(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		r.logger.Warn("the apiserver refused an event", "namespace", event.Namespace, "name", event.Name, "reason", event.Reason, "err", err)
	}
	return true
}

// correlate combines an event with earlier ones; nil if the rate limit suppresses it.
func (r *Recorder) correlate(event *corev1.Event) *record.EventCorrelateResult {
	result, err := r.correlator.EventCorrelate(event)
	if err != nil {
		r.logger.Error("could not combine an event with earlier ones", "namespace", event.Namespace, "name", event.Name, "err", err)
		return nil
	}
	if result.Skip {
		return nil
	}
	return result
}

func (r *Recorder) send(ctx context.Context, result *record.EventCorrelateResult) error {
	event := result.Event
	var written *corev1.Event
	var err error
	if event.Count > 1 && len(result.Patch) > 0 {
		written, err = r.events.Patch(ctx, event.Namespace, event.Name, types.StrategicMergePatchType, result.Patch,
			metav1.PatchOptions{}, "")
	}
	if event.Count <= 1 || len(result.Patch) == 0 || apierrors.IsNotFound(err) {
		// The event whose count was to rise may have expired.
		fresh := event.DeepCopy()
		fresh.ResourceVersion = ""
		written, err = r.events.Create(ctx, fresh, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	r.correlator.UpdateState(written)
	return nil
}
