package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/scheme"
)

// readPatience bounds one read of etcd, which its client would otherwise try again as long as
// the caller waits.
const readPatience = 10 * time.Second

// pageKeys is how many keys one read of a range asks etcd for.
const pageKeys = 500

// ListOptions narrow a List.
type ListOptions struct {
	// Namespace limits the list to one namespace; all when empty.
	Namespace string
	// Limit ends the list after so many kept objects, with a continue token; no limit when 0.
	Limit int64
	// Continue is the token of the page before.
	Continue string
	// Revision is the exact revision to read; the newest when 0.
	Revision int64
	// Keep chooses the objects of the list; all when nil. It stands for the selectors.
	Keep func(scheme.Object) bool
}

// Page is a list, or a part of one.
type Page struct {
	// Objects are in the order of their keys.
	Objects []scheme.Object
	// Revision is the etcd revision that the list shows, History that of which it is: the zero
	// History if etcd has none yet.
	Revision int64
	History  History
	// Continue is the token for the next page; empty at the end.
	Continue string
	// Remaining is how many objects follow; nil at the end, and when Keep is set.
	Remaining *int64
	// Unreadable are the keys, below the kind's prefix, of the values that were left out since
	// they cannot be read.
	Unreadable []string
}

// Get reads one object, linearizably; a NotFound API error if there is none.
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
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	resp, err := s.client.Get(ctx, key)
	s.metrics.observe("get", kind, began, err)
	if err != nil {
		return nil, statusOf(err)
	}
	if len(resp.Kvs) == 0 {
		return nil, nil
	}
	return resp.Kvs[0], nil
}

// List reads objects of one kind, all at one revision however many reads it takes. It fails
// with a Kubernetes 410 Expired when the revision is compacted, and with its 504 "Too large
// resource version" when it does not exist yet. A value that is corrupt is left out, so that it
// does not keep anybody from the others; Get gives an error that names its key.
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
			return Page{}, apierrors.NewTooManyRequests("etcd began a new history while it was read", unavailableRetry)
		}
		if revision == 0 {
			revision = resp.Header.Revision
		}
		page.Revision, page.History = revision, history
		for i, kv := range resp.Kvs {
			start = string(kv.Key) + "\x00"
			obj, err := s.decode(kind, kv)
			if err != nil {
				s.logger.ErrorContext(ctx, "a stored object cannot be read and is left out of a list", "key", string(kv.Key), "error", err)
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

// readRange reads a part of a range and, at the same moment, of which history etcd is now: what
// etcd holds of the past is of the history that it is in, whatever that was called before.
func (s *Store) readRange(ctx context.Context, kind *scheme.Kind, start, prefix string, revision, limit int64) (*clientv3.GetResponse, History, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	resp, err := s.client.Txn(ctx).Then(
		clientv3.OpGet(start, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithLimit(limit), clientv3.WithRev(revision)),
		clientv3.OpGet(historyKey),
	).Commit()
	s.metrics.observe("list", kind, began, err)
	if err != nil {
		return nil, History{}, err
	}
	part := (*clientv3.GetResponse)(resp.Responses[0].GetResponseRange())
	part.Header = resp.Header
	var history History
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
		return NewTooLargeResourceVersion(revision, current, unavailableRetry)
	case !errors.Is(err, rpctypes.ErrCompacted):
		return fmt.Errorf("listing %s: %w", prefix, statusOf(err))
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

// decode reads a stored object and gives it the resourceVersion of its last change.
func (s *Store) decode(kind *scheme.Kind, kv *mvccpb.KeyValue) (scheme.Object, error) {
	obj, err := s.table.DecodeStorage(kind, kv.Value)
	if err != nil {
		s.metrics.corrupt.WithLabelValues(kind.Group, kind.Resource).Inc()
		return nil, corrupt(string(kv.Key), err)
	}
	if fill := s.defaults[kind.Storage]; fill != nil {
		fill(obj)
	}
	obj.SetResourceVersion(strconv.FormatInt(kv.ModRevision, 10))
	return obj, nil
}

// encode gives the bytes to store: without resourceVersion, which is etcd's to say.
func (s *Store) encode(kind *scheme.Kind, obj scheme.Object) ([]byte, error) {
	copied, ok := obj.DeepCopyObject().(scheme.Object)
	if !ok {
		return nil, fmt.Errorf("encoding a %s: the copy of %T is no API object", kind.Kind, obj)
	}
	copied.SetResourceVersion("")
	copied.SetSelfLink("")
	return s.table.EncodeStorage(kind, copied)
}
