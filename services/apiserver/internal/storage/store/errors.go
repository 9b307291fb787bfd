package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kubernetes' messages (apiserver, storage/etcd3/errors.go).
const (
	listExpired          = "The resourceVersion for the provided list is too old."
	continueExpired      = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter."
	inconsistentContinue = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
	tooLarge             = "Too large resource version"
	unavailableRetry     = 1 // seconds
)

// CompactedError reports that etcd no longer has a requested revision.
type CompactedError struct {
	// Oldest is the oldest revision that etcd still has; 0 if etcd did not say.
	Oldest int64
}

func (e *CompactedError) Error() string {
	return fmt.Sprintf("etcd has compacted the revision; its oldest is %d", e.Oldest)
}

// CorruptError reports that the value of an etcd key cannot be read.
type CorruptError struct {
	// Key is the etcd key.
	Key string
	// Err is what is wrong with the value.
	Err error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("the value of etcd key %q is corrupt: %v", e.Key, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// corrupt returns the API error (500) for a value that cannot be read. It names the key.
func corrupt(key string, err error) error {
	found := &CorruptError{Key: key, Err: err}
	return &statusCause{StatusError: apierrors.NewInternalError(found), cause: found}
}

// statusCause is an API error that keeps its cause for errors.As.
type statusCause struct {
	*apierrors.StatusError
	cause error
}

func (e *statusCause) Unwrap() []error { return []error{e.StatusError, e.cause} }

// NewTooLargeResourceVersion returns Kubernetes' error (504) for a requested revision that does not
// exist yet (apiserver, storage.NewTooLargeResourceVersionError).
func NewTooLargeResourceVersion(minimum, current int64, retrySeconds int) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("%s: %d, current: %d", tooLarge, minimum, current), retrySeconds)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: tooLarge,
	}}
	return err
}

// statusOf converts an error of etcd's client to an API error where one fits.
func statusOf(err error) error {
	var found apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case errors.As(err, &found):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return &statusCause{
			StatusError: apierrors.NewTimeoutError("etcd did not answer in time", unavailableRetry), cause: err,
		}
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, rpctypes.ErrNoSpace):
		return &statusCause{StatusError: noSpace(), cause: err}
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		return &statusCause{
			StatusError: apierrors.NewRequestEntityTooLargeError(rpctypes.ErrRequestTooLarge.Error()), cause: err,
		}
	}
	switch status.Code(err) {
	case codes.Unavailable:
		return &statusCause{StatusError: apierrors.NewServiceUnavailable(err.Error()), cause: err}
	case codes.DeadlineExceeded:
		return &statusCause{StatusError: apierrors.NewTimeoutError(err.Error(), unavailableRetry), cause: err}
	}
	if trimmed := (rpctypes.EtcdError{}); errors.As(err, &trimmed) && trimmed.Code() == codes.Unavailable {
		return &statusCause{StatusError: apierrors.NewServiceUnavailable(err.Error()), cause: err}
	}
	return err
}

// noSpace returns the error for a write that etcd refuses because its database is full: 500 and, as
// in Kubernetes, etcd's own message first. It does not ask clients to retry: the condition lasts
// until somebody makes room.
func noSpace() *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
		Message: rpctypes.ErrNoSpace.Error() + ": nothing can be written until an administrator has compacted and defragmented etcd and disarmed its alarm",
	}}
}

// checkSegment rejects values that cannot stand between two slashes of a key, with Kubernetes'
// messages (apiserver, registry/generic/registry.NamespaceKeyFunc).
func checkSegment(what, value string) error {
	if value == "" {
		return apierrors.NewBadRequest(what + " parameter required.")
	}
	if found := content.IsPathSegmentName(value); len(found) != 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("%s parameter invalid: %q: %s", what, value, strings.Join(found, ";")))
	}
	return nil
}
