package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/etcd"
)

// pageKeys is the number of keys that one range read requests from etcd.
const pageKeys = 500

// ListOptions narrows a List.
type ListOptions struct {
	// Namespace limits the list to one namespace; empty means all.
	Namespace string
	// Limit ends the list after this many matching objects, with a continue token; 0 means no
	// limit.
	Limit int64
	// Continue is the token of the previous page.
	Continue string
	// Revision is the exact revision to read; 0 means the newest.
	Revision int64
	// Keep selects the objects of the list; nil means all. It implements the selectors.
	Keep func(scheme.Object) bool
}

// Page is a list, or part of one.
type Page struct {
	// Objects are in key order.
	Objects []scheme.Object
	// Revision is the etcd revision of the list, and History the history it belongs to: the zero
	// History if etcd has none yet.
	Revision int64
	History  fabric.History
	// Continue is the token for the next page; empty at the end.
	Continue string
	// Remaining is the number of objects that follow; nil at the end, and when Keep is set.
	Remaining *int64
	// Unreadable are the keys, below the kind's prefix, of values left out because they cannot be
	// read.
	Unreadable []string
}

// Get reads one object, linearizably. It returns a NotFound API error if there is none.
func (s *Store) Get(ctx context.Context, kind *scheme.Kind, namespace, name string) (scheme.Object, error) {
	s = s.Of(kind)
	key, err := s.key(kind, namespace, name)
	if err != nil {
		return nil, err
	}
	kv, err := s.get(ctx, kind, key)
	if err != nil {
		return nil, fmt.Errorf("getting %s: %w", key, err)
	}
	if kv == nil {
		return nil, apierrors.NewNotFound(kind.GroupResource(), name)
	}
	return s.decode(kind, kv)
}

func (s *Store) get(ctx context.Context, kind *scheme.Kind, key string) (*mvccpb.KeyValue, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, etcd.ReadPatience)
	defer cancel()
	resp, err := s.client.Get(ctx, key)
	s.observe("get", kind, began, err)
	if err != nil {
		return nil, etcd.APIError(err)
	}
	if len(resp.Kvs) == 0 {
		return nil, nil
	}
	return resp.Kvs[0], nil
}

// List reads objects of one kind, all at one revision however many reads it takes. It fails with a
// Kubernetes 410 Expired if the revision is compacted, and with Kubernetes' 504 "Too large resource
// version" if it does not exist yet. List leaves out a corrupt value, so that clients can read the
// others; Get returns an error that names its key.
func (s *Store) List(ctx context.Context, kind *scheme.Kind, opts ListOptions) (Page, error) {
	s = s.Of(kind)
	prefix, err := s.rangePrefix(kind, opts.Namespace)
	if err != nil {
		return Page{}, err
	}
	start, revision := prefix, opts.Revision
	if opts.Continue != "" {
		if opts.Revision != 0 {
			return Page{}, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		start, revision, err = decodeContinue(opts.Continue, prefix)
		if err != nil {
			return Page{}, invalidContinue(err)
		}
		revision = max(revision, 0)
	}
	var page Page
	for {
		resp, history, err := s.readRange(ctx, kind, start, prefix, revision, pageSize(opts))
		if err != nil {
			return Page{}, s.listError(ctx, err, opts, start, prefix, revision)
		}
		if page.Revision != 0 && history != page.History {
			return Page{}, apierrors.NewTooManyRequests("etcd began a new history during the read", etcd.RetrySeconds)
		}
		if revision == 0 {
			revision = resp.Header.Revision
		}
		page.Revision, page.History = revision, history
		for i, kv := range resp.Kvs {
			start = string(kv.Key) + "\x00"
			obj, err := s.decode(kind, kv)
			if found := (*IncompleteError)(nil); errors.As(err, &found) {
				return Page{}, err
			}
			if err != nil {
				s.logger.ErrorContext(ctx, "a stored object cannot be read and is left out of a list", "key", string(kv.Key), "err", err)
				page.Unreadable = append(page.Unreadable, strings.TrimPrefix(string(kv.Key), s.prefix+kind.StoragePrefix+"/"))
				continue
			}
			if opts.Keep != nil && !opts.Keep(obj) {
				continue
			}
			page.Objects = append(page.Objects, obj)
			rest := resp.Count - int64(i) - 1
			if opts.Limit == 0 || int64(len(page.Objects)) < opts.Limit || rest == 0 {
				continue
			}
			if page.Continue, err = encodeContinue(start, prefix, revision); err != nil {
				return Page{}, err
			}
			if opts.Keep == nil {
				page.Remaining = &rest
			}
			return page, nil
		}
		if !resp.More || len(resp.Kvs) == 0 {
			return page, nil
		}
	}
}

func pageSize(opts ListOptions) int64 {
	if opts.Limit > 0 && opts.Keep == nil {
		return min(opts.Limit, pageKeys)
	}
	return pageKeys
}

// readRange reads part of a range and, in the same transaction, the history that etcd is in now:
// etcd's past belongs to the history that etcd is in, whatever it was called before.
func (s *Store) readRange(ctx context.Context, kind *scheme.Kind, start, prefix string, revision, limit int64) (*clientv3.GetResponse, fabric.History, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, etcd.ReadPatience)
	defer cancel()
	resp, err := s.client.Txn(ctx).Then(
		clientv3.OpGet(start, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithLimit(limit), clientv3.WithRev(revision)),
		clientv3.OpGet(historyKey),
	).Commit()
	s.observe("list", kind, began, err)
	if err != nil {
		return nil, fabric.History{}, err
	}
	part := (*clientv3.GetResponse)(resp.Responses[0].GetResponseRange())
	part.Header = resp.Header
	var history fabric.History
	if kvs := resp.Responses[1].GetResponseRange().Kvs; len(kvs) > 0 {
		history, err = decodeHistory(kvs[0].Value)
	}
	return part, history, err
}

func (s *Store) listError(ctx context.Context, err error, opts ListOptions, start, prefix string, revision int64) error {
	switch {
	case errors.Is(err, rpctypes.ErrFutureRev):
		current, err := s.Revision(ctx)
		if err != nil {
			return err
		}
		return NewTooLargeResourceVersion(revision, current, etcd.RetrySeconds)
	case !errors.Is(err, rpctypes.ErrCompacted):
		return fmt.Errorf("listing %s: %w", prefix, etcd.APIError(err))
	case opts.Continue == "":
		return apierrors.NewResourceExpired(listExpired)
	}
	token, encodeErr := encodeContinue(start, prefix, -1)
	if encodeErr != nil {
		return apierrors.NewResourceExpired(continueExpired)
	}
	expired := apierrors.NewResourceExpired(inconsistentContinue)
	expired.ErrStatus.Continue = token
	return expired
}

// decode decodes a stored object and sets the resourceVersion of its last change.
func (s *Store) decode(kind *scheme.Kind, kv *mvccpb.KeyValue) (scheme.Object, error) {
	obj, err := s.table.DecodeStorage(kind, kv.Value)
	if err != nil {
		s.metrics.corrupt.WithLabelValues(kind.Group, kind.Resource).Inc()
		return nil, corrupt(string(kv.Key), err)
	}
	if fill := s.defaults(kind); fill != nil {
		if err := fill(obj); err != nil {
			return nil, incomplete(string(kv.Key), err)
		}
	}
	obj.SetResourceVersion(strconv.FormatInt(kv.ModRevision, 10))
	return obj, nil
}

// encode returns the bytes to store, without the resourceVersion, which etcd determines.
func (s *Store) encode(kind *scheme.Kind, obj scheme.Object) ([]byte, error) {
	copied, ok := withOwnMetadata(obj).(scheme.Object)
	if !ok {
		return nil, fmt.Errorf("encoding a %s: the copy of %T is not an API object", kind.Kind, obj)
	}
	copied.SetResourceVersion("")
	copied.SetSelfLink("")
	return s.table.EncodeStorage(kind, copied)
}

// withOwnMetadata returns a copy whose metadata may be changed.
func withOwnMetadata(obj scheme.Object) runtime.Object {
	u, loose := obj.(*unstructured.Unstructured)
	if !loose {
		return obj.DeepCopyObject()
	}
	fields := maps.Clone(u.Object)
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		fields["metadata"] = maps.Clone(metadata)
	}
	return &unstructured.Unstructured{Object: fields}
}
