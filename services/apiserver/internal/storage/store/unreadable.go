package store

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/scheme"
)

// errReadable is Kubernetes' error for an unsafe deletion of an object that can be read.
var errReadable = errors.New("unsafe deletion is not allowed because the object is decodable from storage")

// DeleteUnreadable removes a value that cannot be read, unless dryRun is set, and returns the
// revision of the deletion. It returns a Conflict API error if the value can be read, and NotFound
// if there is none.
func (s *Store) DeleteUnreadable(ctx context.Context, kind *scheme.Kind, namespace, name string, dryRun bool) (int64, error) {
	s = s.Of(kind)
	key, err := s.key(kind, namespace, name)
	if err != nil {
		return 0, err
	}
	kv, err := s.get(ctx, kind, key)
	if err != nil {
		return 0, fmt.Errorf("deleting %s: %w", key, err)
	}
	for kv != nil {
		if _, err := s.table.DecodeStorage(kind, kv.Value); err == nil {
			return 0, apierrors.NewConflict(kind.GroupResource(), name, errReadable)
		}
		if dryRun {
			return 0, nil
		}
		resp, err := s.commit(ctx, write{kind: kind, key: key, operation: "delete", based: kv.ModRevision})
		if err != nil {
			return 0, fmt.Errorf("deleting %s: %w", key, err)
		}
		if resp.Succeeded {
			return resp.Header.Revision, nil
		}
		kv = found(resp)
	}
	return 0, apierrors.NewNotFound(kind.GroupResource(), name)
}
