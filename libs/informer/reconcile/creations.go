package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

const (
	// nameAttempts is how many names are tried for one object (KEP-4420).
	nameAttempts = 8
	// A generated name has a random end, and with it at most 63 characters (Kubernetes, storage/names).
	randomEnd = 5
	maxPrefix = 63 - randomEnd
)

// generateName returns a name with a prefix.
func generateName(prefix string) string {
	return prefix[:min(len(prefix), maxPrefix)] + rand.String(randomEnd)
}

// creation is an attempt to create an object with a generated name whose outcome is unknown: the
// connection or the storage failed before the answer. The object may exist, may still come to
// exist, or may not.
type creation struct {
	client          client.Interface
	kind            *scheme.Kind
	namespace, name string
	// prefix is the object's generateName, and owner the UID of its controller.
	prefix, owner string
	since         time.Time
}

// create sends a creation. It chooses a generated name itself, so that a repeated attempt, whose
// first outcome is unknown, can have the same name and cannot create a second object.
func (r recording) create(ctx context.Context, call client.Call, into runtime.Object, record *written) error {
	given, ok := call.Body.(scheme.Object)
	if !ok || call.Subresource != "" || given.GetName() != "" || given.GetGenerateName() == "" {
		return r.Interface.Do(ctx, call, into)
	}
	body, ok := given.DeepCopyObject().(scheme.Object)
	if !ok {
		return fmt.Errorf("copying a %s: it is not an object", call.Kind.Kind)
	}
	call.Body = body
	attempt := creation{
		client: r.Interface, kind: call.Kind, namespace: call.Namespace, prefix: given.GetGenerateName(), since: time.Now(),
	}
	if owner := metav1.GetControllerOfNoCopy(given); owner != nil {
		attempt.owner = string(owner.UID)
	}
	repeated := record.repeat(&attempt)
	for tries := 1; ; tries++ {
		if !repeated {
			attempt.name = generateName(attempt.prefix)
		}
		body.SetName(attempt.name)
		err := r.Interface.Do(ctx, call, into)
		switch {
		case apierrors.IsAlreadyExists(err) && repeated, unknown(err):
			record.doubt(attempt)
			return err
		case apierrors.IsAlreadyExists(err) && tries < nameAttempts:
			continue
		}
		return err
	}
}

// unknown reports whether a write that failed may have taken effect.
func unknown(err error) bool {
	if err == nil {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code == 0 || code == http.StatusRequestTimeout || code >= http.StatusInternalServerError
}

// repeat fills in the name of an earlier creation like c whose outcome is unknown; it reports false
// if there is none.
func (w *written) repeat(c *creation) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, other := range w.doubts {
		if other.kind == c.kind && other.namespace == c.namespace && other.prefix == c.prefix && other.owner == c.owner {
			c.name, c.since = other.name, other.since
			w.doubts = append(w.doubts[:i:i], w.doubts[i+1:]...)
			return true
		}
	}
	return false
}

// doubt records a creation whose outcome is unknown.
func (w *written) doubt(c creation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doubts, w.last = append(w.doubts, c), time.Now()
}

// doubtful reports whether the outcome of a creation is unknown.
func (w *written) doubtful() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.doubts) > 0
}

// take removes and returns the creations whose outcome is unknown, with the time of the last write.
func (w *written) take() ([]creation, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	doubts := w.doubts
	w.doubts = nil
	return doubts, w.last
}

// settle asks for the objects of creations whose outcome is unknown. The caches must show those that
// exist before the key is reconciled again.
func (w *written) settle(ctx context.Context) error {
	asked, _ := w.take()
	for i, c := range asked {
		exists, err := c.look(ctx, w)
		if err != nil {
			for _, left := range asked[i:] {
				w.doubt(left)
			}
			return err
		}
		if !exists && time.Since(c.since) < expectationTimeout {
			w.doubt(c)
		}
	}
	return nil
}

// look reports whether the object of a creation exists, and records its revision.
func (c creation) look(ctx context.Context, record *written) (exists bool, err error) {
	found := c.kind.New()
	err = c.client.Do(ctx, client.Call{
		Verb: "get", Kind: c.kind, Namespace: c.namespace, Name: c.name, Options: &metav1.GetOptions{},
	}, found)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("asking whether %s %s/%s has been created: %w", c.kind.Kind, c.namespace, c.name, err)
	}
	revision, err := strconv.ParseInt(found.GetResourceVersion(), 10, 64)
	if err != nil {
		return true, nil //nolint:nilerr // A server whose versions are not numbers has no revision to wait for.
	}
	record.note(reflect.TypeOf(found), revision)
	return true, nil
}
