package images

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// Reasons why a container waits for its image, as its status and kubectl show them.
const (
	ReasonErrImagePull              = "ErrImagePull"
	ReasonImagePullBackOff          = "ImagePullBackOff"
	ReasonErrImageNeverPull         = "ErrImageNeverPull"
	ReasonInvalidImageName          = "InvalidImageName"
	ReasonImageInspectError         = "ImageInspectError"
	ReasonRegistryUnavailable       = "RegistryUnavailable"
	ReasonSignatureValidationFailed = "SignatureValidationFailed"
)

// Event reasons, the kubelet's.
const (
	eventPulling           = "Pulling"
	eventPulled            = "Pulled"
	eventFailed            = "Failed"
	eventInspectFailed     = "InspectFailed"
	eventErrImageNeverPull = "ErrImageNeverPull"
	eventBackOff           = "BackOff"
	eventPullSecret        = "FailedToRetrieveImagePullSecret"
)

// The kubelet's back-off times for image pulls.
const (
	backOffInitial = 10 * time.Second
	backOffMax     = 5 * time.Minute
)

// DefaultParallel is the number of parallel pulls when Config does not set it.
const DefaultParallel = 5

// Runtime is the part of the container runtime that this package uses.
type Runtime interface {
	ImageStatus(ctx context.Context, ref string) (runtime.Image, error)
	PullImage(ctx context.Context, ref string, auth runtime.Auth, sandbox runtime.SandboxConfig) (string, error)
}

// Config configures Images.
type Config struct {
	// Runtime is required.
	Runtime Runtime
	// Parallel is the number of parallel pulls, 1 for serial pulls; DefaultParallel when 0.
	Parallel int
	// Logger receives the log; slog's default when nil.
	Logger *slog.Logger
}

// Images pulls images to the node. Any goroutine may use it.
type Images struct {
	runtime Runtime
	logger  *slog.Logger
	slots   chan struct{}

	mu       sync.Mutex
	failures map[failureKey]failure
}

// failureKey: pods do not share back-off, since they may have different credentials.
type failureKey struct {
	pod   types.UID
	image string
}

type failure struct {
	delays  wait.Backoff
	wait    time.Duration
	at      time.Time
	message string
}

// New returns an Images.
func New(cfg Config) *Images {
	if cfg.Parallel <= 0 {
		cfg.Parallel = DefaultParallel
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Images{
		runtime:  cfg.Runtime,
		logger:   cfg.Logger,
		slots:    make(chan struct{}, cfg.Parallel),
		failures: map[failureKey]failure{},
	}
}

// Error reports why a container has no image: Reason and Message are those of its waiting state.
type Error struct {
	Reason, Message string
	// Err is the cause; may be nil.
	Err error
	// RetryAfter is the time until a retry makes sense; 0 to retry at the next sync.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return e.Reason + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Request requests the image of one container.
type Request struct {
	// Pod is the pod's UID.
	Pod types.UID
	// Image is the image as written in the container; an empty Policy means Kubernetes' default for Image.
	Image  string
	Policy corev1.PullPolicy
	// Sandbox is the config of the pod's sandbox, passed to the runtime.
	Sandbox runtime.SandboxConfig
	// Secrets are those of the pod's imagePullSecrets that could be read.
	Secrets []*corev1.Secret
}

// Event records an Event about the pod: corev1.EventTypeNormal or Warning, reason, message.
type Event func(eventType, reason, message string)

// Ensure returns the runtime's reference to the image, for creating the container, and pulls the
// image first if the policy requires it. It waits for a slot and for the pull. A failure is an
// *Error, or ctx's error if ctx ended first.
func (i *Images) Ensure(ctx context.Context, request Request, event Event) (string, error) {
	image, err := defaultTag(request.Image)
	if err != nil {
		message := fmt.Sprintf("Failed to apply default image tag %q: %v", request.Image, err)
		event(corev1.EventTypeWarning, eventInspectFailed, message)
		return "", &Error{Reason: ReasonInvalidImageName, Message: message, Err: err}
	}
	present, err := i.runtime.ImageStatus(ctx, image)
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, runtime.ErrNotFound) {
		message := fmt.Sprintf("Failed to inspect image %q: %s", request.Image, runtime.Describe(err))
		event(corev1.EventTypeWarning, eventInspectFailed, message)
		return "", &Error{Reason: ReasonImageInspectError, Message: message, Err: err}
	}
	policy := request.Policy
	if policy == "" {
		policy = defaultPolicy(request.Image)
	}
	switch {
	case present.ID != "" && policy != corev1.PullAlways:
		event(corev1.EventTypeNormal, eventPulled, fmt.Sprintf("Container image %q already present on machine", request.Image))
		return present.ID, nil
	case policy == corev1.PullNever:
		message := fmt.Sprintf("Container image %q is not present with pull policy of Never", request.Image)
		event(corev1.EventTypeWarning, eventErrImageNeverPull, message)
		return "", &Error{Reason: ReasonErrImageNeverPull, Message: message}
	}
	key := failureKey{pod: request.Pod, image: request.Image}
	if wait, previous := i.waiting(key); wait > 0 {
		message := fmt.Sprintf("Back-off pulling image %q", request.Image)
		event(corev1.EventTypeNormal, eventBackOff, message)
		return "", &Error{Reason: ReasonImagePullBackOff, Message: message + ": " + previous, RetryAfter: wait}
	}
	return i.pull(ctx, key, image, request, event)
}

func (i *Images) pull(ctx context.Context, key failureKey, image string, request Request, event Event) (string, error) {
	event(corev1.EventTypeNormal, eventPulling, fmt.Sprintf("Pulling image %q", request.Image))
	asked := time.Now()
	select {
	case i.slots <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	began := time.Now()
	ref, err := i.fetch(ctx, image, request, event)
	took := time.Since(began)
	<-i.slots
	if ctx.Err() != nil && err != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		event(corev1.EventTypeWarning, eventFailed, fmt.Sprintf("Failed to pull image %q: %s", request.Image, runtime.Describe(err)))
		fault := pullError(request.Image, err)
		fault.RetryAfter = i.failed(key, fault.Error())
		return "", fault
	}
	i.forget(func(k failureKey) bool { return k == key })
	var size uint64
	if now, err := i.runtime.ImageStatus(ctx, ref); err == nil {
		size = now.Size
	} else {
		i.logger.Warn("reading the size of a pulled image failed", "image", request.Image, "err", err)
	}
	event(corev1.EventTypeNormal, eventPulled, fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.",
		request.Image, took.Truncate(time.Millisecond), time.Since(asked).Truncate(time.Millisecond), size))
	return ref, nil
}

// fetch tries the matching credentials in turn, or none when there are none.
func (i *Images) fetch(ctx context.Context, image string, request Request, event Event) (string, error) {
	ring, err := readSecrets(request.Secrets)
	if err != nil {
		event(corev1.EventTypeWarning, eventPullSecret, err.Error())
	}
	name, err := repository(image)
	if err != nil {
		return "", err
	}
	attempts := ring.lookup(name)
	if len(attempts) == 0 {
		attempts = []runtime.Auth{{}}
	}
	var faults []error
	for _, auth := range attempts {
		ref, err := i.runtime.PullImage(ctx, image, auth, request.Sandbox)
		if err == nil {
			return ref, nil
		}
		faults = append(faults, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(faults) == 1 {
		return "", faults[0]
	}
	return "", errors.Join(faults...)
}

func pullError(image string, err error) *Error {
	words := runtime.Describe(err)
	switch {
	case errors.Is(err, runtime.ErrRegistryUnavailable):
		return &Error{Reason: ReasonRegistryUnavailable, Err: err,
			Message: fmt.Sprintf("image pull failed for %s because the registry is unavailable: %s", image, words)}
	case errors.Is(err, runtime.ErrSignatureValidationFailed):
		return &Error{Reason: ReasonSignatureValidationFailed, Err: err,
			Message: fmt.Sprintf("image pull failed for %s because the signature validation failed: %s", image, words)}
	default:
		return &Error{Reason: ReasonErrImagePull, Message: words, Err: err}
	}
}

// waiting returns the remaining back-off of the pod and the error that caused it.
func (i *Images) waiting(key failureKey) (time.Duration, string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f, known := i.failures[key]
	if !known {
		return 0, ""
	}
	return f.wait - time.Since(f.at), f.message
}

// failed records a failed pull and returns the back-off that follows it.
func (i *Images) failed(key failureKey, message string) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	for k, f := range i.failures {
		if now.Sub(f.at) > 2*backOffMax {
			delete(i.failures, k)
		}
	}
	f, known := i.failures[key]
	if !known {
		f.delays = backoff.Doubling(backOffInitial, backOffMax, 0)
	}
	f.wait, f.at, f.message = f.delays.Step(), now, message
	i.failures[key] = f
	return f.wait
}

// Forget drops the failures of a pod that is gone.
func (i *Images) Forget(pod types.UID) {
	i.forget(func(key failureKey) bool { return key.pod == pod })
}

func (i *Images) forget(gone func(failureKey) bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for key := range i.failures {
		if gone(key) {
			delete(i.failures, key)
		}
	}
}
