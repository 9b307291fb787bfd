package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Errors that callers distinguish with errors.Is. The wrapping error has the runtime's own message.
var (
	// ErrNotFound: the sandbox, container or image does not exist.
	ErrNotFound = errors.New("not found")
	// ErrTimeout: the runtime did not answer in time; the operation may still take effect.
	ErrTimeout = errors.New("timed out")
	// ErrUnavailable: the runtime's socket does not answer.
	ErrUnavailable = errors.New("container runtime is not available")
	// ErrUnsupported: the runtime does not implement this call.
	ErrUnsupported = errors.New("not supported by the container runtime")
	// ErrRegistryUnavailable: the image's registry did not answer properly.
	ErrRegistryUnavailable = errors.New("RegistryUnavailable")
	// ErrSignatureValidationFailed: the signature of an image was not accepted.
	ErrSignatureValidationFailed = errors.New("SignatureValidationFailed")
)

// callError is a failed call. Its text is the runtime's, prefixed by what was tried; its kind is
// one of the errors above or nil.
type callError struct {
	call string
	kind error
	err  error // with its gRPC status
}

func (e *callError) Error() string { return e.call + ": " + e.Description() }

// Unwrap returns the kind and the cause.
func (e *callError) Unwrap() []error {
	if e.kind == nil {
		return []error{e.err}
	}
	return []error{e.kind, e.err}
}

// Description returns the runtime's own message in the form in which the kubelet shows gRPC errors
// in Events: "rpc error: code = Unknown desc = …".
func (e *callError) Description() string { return e.err.Error() }

// failed wraps the error of a call; nil stays nil.
func failed(call string, err error) error {
	if err == nil {
		return nil
	}
	e := &callError{call: call, err: err}
	switch status.Code(err) {
	case codes.NotFound:
		e.kind = ErrNotFound
	case codes.DeadlineExceeded:
		e.kind = ErrTimeout
	case codes.Unavailable:
		e.kind = ErrUnavailable
	case codes.Unimplemented:
		e.kind = ErrUnsupported
	case codes.Canceled:
		e.kind = context.Canceled
	}
	// The runtime reports these two by the prefix of its message (CRI's own convention,
	// k8s.io/cri-api/pkg/errors).
	message := status.Convert(err).Message()
	for _, kind := range []error{ErrRegistryUnavailable, ErrSignatureValidationFailed} {
		if strings.HasPrefix(message, kind.Error()) {
			e.kind = kind
		}
	}
	return e
}

// ofOne reports whether a failed call says something of the sandbox or container that it was about: the runtime answered
// and can be asked about others.
func ofOne(err error) bool {
	for _, kind := range []error{ErrTimeout, ErrUnavailable, ErrUnsupported, context.Canceled} {
		if errors.Is(err, kind) {
			return false
		}
	}
	return true
}

// Describe returns the text of a runtime's error as the kubelet puts it into Events: without what
// callers added about the call.
func Describe(err error) string {
	if e, ok := errors.AsType[*callError](err); ok {
		return e.Description()
	}
	return fmt.Sprint(err)
}
