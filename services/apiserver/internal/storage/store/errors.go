package store

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/storage/etcd"
)

// Kubernetes' messages (apiserver, storage/etcd3/errors.go).
const (
	listExpired          = "The resourceVersion for the provided list is too old."
	continueExpired      = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter."
	inconsistentContinue = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
	tooLarge             = "Too large resource version"
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
	return &etcd.StatusError{StatusError: apierrors.NewInternalError(found), Cause: found}
}

// IncompleteError reports that an object cannot be read at present, although its value is sound: what
// converts it fails.
type IncompleteError struct {
	// Key is the etcd key.
	Key string
	// Err is the fault.
	Err error
}

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("reading the value of etcd key %q: %v", e.Key, e.Err)
}

func (e *IncompleteError) Unwrap() error { return e.Err }

// incomplete returns the API error (500) for an object that cannot be read at present. It names the key.
func incomplete(key string, err error) error {
	found := &IncompleteError{Key: key, Err: err}
	return &etcd.StatusError{StatusError: apierrors.NewInternalError(found), Cause: found}
}

// NewTooLargeResourceVersion returns Kubernetes' error (504) for a requested revision that does not
// exist yet (apiserver, storage.NewTooLargeResourceVersionError).
func NewTooLargeResourceVersion(minimum, current int64, retrySeconds int) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("%s: %d, current: %d", tooLarge, minimum, current), retrySeconds)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: tooLarge,
	}}
	return err
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
