package etcd

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RetrySeconds is when clients may try again what etcd did not do in time.
const RetrySeconds = 1

// StatusError is an API error that keeps its Cause for errors.As.
type StatusError struct {
	*apierrors.StatusError
	Cause error
}

// Unwrap returns both errors.
func (e *StatusError) Unwrap() []error { return []error{e.StatusError, e.Cause} }

// APIError converts an error of etcd's client to an API error where one fits.
func APIError(err error) error {
	var found apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case errors.As(err, &found):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return &StatusError{
			StatusError: apierrors.NewTimeoutError("etcd did not answer in time", RetrySeconds), Cause: err,
		}
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, rpctypes.ErrNoSpace):
		return &StatusError{StatusError: noSpace(), Cause: err}
	case IsTooLarge(err):
		return &StatusError{StatusError: tooLarge(err), Cause: err}
	}
	switch status.Code(err) {
	case codes.Unavailable:
		return &StatusError{StatusError: apierrors.NewServiceUnavailable(err.Error()), Cause: err}
	case codes.DeadlineExceeded:
		return &StatusError{StatusError: apierrors.NewTimeoutError(err.Error(), RetrySeconds), Cause: err}
	}
	if trimmed := (rpctypes.EtcdError{}); errors.As(err, &trimmed) && trimmed.Code() == codes.Unavailable {
		return &StatusError{StatusError: apierrors.NewServiceUnavailable(err.Error()), Cause: err}
	}
	return err
}

// IsTooLarge reports whether an error is that of a write that is too large for etcd, as k8s.io/apiserver's
// handlers recognize it: etcd has refused it (--max-request-bytes, 1.5 MiB by default), or its client, which sends
// at most 2 MiB.
func IsTooLarge(err error) bool {
	return errors.Is(err, rpctypes.ErrRequestTooLarge) ||
		status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "trying to send message larger than max")
}

// tooLarge returns the error for a write that is too large: as in Kubernetes 500 without a reason, and etcd's own
// message first.
func tooLarge(err error) *apierrors.StatusError {
	text := rpctypes.ErrRequestTooLarge.Error()
	var own interface{ GRPCStatus() *status.Status }
	if !errors.Is(err, rpctypes.ErrRequestTooLarge) && errors.As(err, &own) {
		text = own.GRPCStatus().Err().Error()
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonUnknown,
		Message: text + ": the object does not fit into a request to etcd (its --max-request-bytes, 1.5 MiB by default)",
	}}
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
