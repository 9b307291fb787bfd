package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/apiserver/internal/storage/etcd"
)

// Create stores a new object and returns it with its resourceVersion. It returns an AlreadyExists
// API error if the name is taken.
func (s *Store) Create(ctx context.Context, kind *scheme.Kind, obj scheme.Object) (scheme.Object, error) {
	s = s.Of(kind)
	if obj.GetResourceVersion() != "" {
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	key, err := s.key(kind, obj.GetNamespace(), obj.GetName())
	if err != nil {
		return nil, err
	}
	data, err := s.encode(kind, obj)
	if err != nil {
		return nil, err
	}
	w := write{kind: kind, key: key, operation: "create", data: data}
	resp, err := s.commit(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("creating %s: %w", key, err)
	}
	if !resp.Succeeded {
		return nil, apierrors.NewAlreadyExists(kind.GroupResource(), obj.GetName())
	}
	return s.stored(w, resp)
}

// Update replaces the current object with the result of change and returns it with its new
// resourceVersion. If another writer was faster, Update calls change again with the newer object.
// change may modify and return its argument; its errors are returned unchanged. If the result is no
// different, nothing is written and Update returns the current object. It returns a NotFound API
// error if there is no object.
func (s *Store) Update(ctx context.Context, kind *scheme.Kind, namespace, name string, change func(current scheme.Object) (scheme.Object, error)) (scheme.Object, error) {
	s = s.Of(kind)
	key, err := s.key(kind, namespace, name)
	if err != nil {
		return nil, err
	}
	kv, err := s.get(ctx, kind, key)
	if err != nil {
		return nil, fmt.Errorf("updating %s: %w", key, err)
	}
	for kv != nil {
		current, err := s.decode(kind, kv)
		if err != nil {
			return nil, err
		}
		next, err := change(current)
		if err != nil {
			return nil, err
		}
		data, err := s.encode(kind, next)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(data, kv.Value) {
			return s.decode(kind, kv)
		}
		w := write{kind: kind, key: key, operation: "update", data: data, based: kv.ModRevision}
		resp, err := s.commit(ctx, w)
		if err != nil {
			return nil, fmt.Errorf("updating %s: %w", key, err)
		}
		if resp.Succeeded {
			return s.stored(w, resp)
		}
		kv = found(resp)
	}
	return nil, apierrors.NewNotFound(kind.GroupResource(), name)
}

// Delete removes an object and returns its last state with the revision of the deletion as its
// resourceVersion. check, unless nil, sees the object first, and again after each lost race; its
// error is returned unchanged and nothing is deleted. Delete returns a NotFound API error if there
// is no object.
func (s *Store) Delete(ctx context.Context, kind *scheme.Kind, namespace, name string, check func(current scheme.Object) error) (scheme.Object, error) {
	s = s.Of(kind)
	key, err := s.key(kind, namespace, name)
	if err != nil {
		return nil, err
	}
	kv, err := s.get(ctx, kind, key)
	if err != nil {
		return nil, fmt.Errorf("deleting %s: %w", key, err)
	}
	for kv != nil {
		current, err := s.decode(kind, kv)
		if err != nil {
			return nil, err
		}
		if check != nil {
			if err := check(current); err != nil {
				return nil, err
			}
		}
		resp, err := s.commit(ctx, write{kind: kind, key: key, operation: "delete", based: kv.ModRevision})
		if err != nil {
			return nil, fmt.Errorf("deleting %s: %w", key, err)
		}
		if resp.Succeeded {
			current.SetResourceVersion(strconv.FormatInt(resp.Header.Revision, 10))
			return current, nil
		}
		kv = found(resp)
	}
	return nil, apierrors.NewNotFound(kind.GroupResource(), name)
}

// write is one guarded change of one key.
type write struct {
	kind      *scheme.Kind
	key       string
	operation string
	// data is the new value; nil deletes.
	data []byte
	// based is the mod_revision that the key must have; 0 if it must not exist.
	based int64
}

// commit performs a write, fenced if ctx has a fence. If it does not succeed, the key was not at
// the revision that the write is based on; the first part of the response then holds the current
// key.
func (s *Store) commit(ctx context.Context, w write) (*clientv3.TxnResponse, error) {
	began := time.Now()
	namespace, name, _ := s.split(w.kind, w.key)
	s.trace.Writing(ctx, trace.Ref{Resource: w.kind.Resource, Namespace: namespace, Name: name})
	resp, err := s.fenced(ctx, w)
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		// The shared lease ended early, as after a restore of etcd. Nothing was written, so the
		// write can be retried under a new lease.
		s.events.Forget()
		resp, err = s.fenced(ctx, w)
	}
	if fence.IsLost(err) {
		return nil, err // Not a fault of etcd.
	}
	s.observe(w.operation, w.kind, began, err)
	if err != nil {
		return nil, etcd.APIError(err)
	}
	if resp.Succeeded {
		s.trace.Record(trace.Hop{
			Took: time.Since(began), Service: "apiserver", Step: trace.Commit, Resource: w.kind.Resource,
			Namespace: namespace, Name: name, Revision: resp.Header.Revision, Detail: w.operation,
		})
	}
	return resp, nil
}

// transact runs the one transaction of a write. With g it also compares the lease of a fence; if it
// then does not succeed, the response holds the current values of the write's key and of the lease.
func (s *Store) transact(ctx context.Context, w write, g *guard) (*clientv3.TxnResponse, error) {
	operation := clientv3.OpDelete(w.key)
	if w.data != nil {
		var opts []clientv3.OpOption
		if isEvent(w.kind) {
			lease, err := s.events.Lease(ctx)
			if err != nil {
				return nil, err
			}
			opts = append(opts, clientv3.WithLease(lease))
		}
		operation = clientv3.OpPut(w.key, string(w.data), opts...)
	}
	compares := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(w.key), "=", w.based)}
	var looks []clientv3.Op
	switch {
	case w.based != 0:
		looks = append(looks, clientv3.OpGet(w.key))
	case g != nil: // A create only needs to know whether the key exists.
		looks = append(looks, clientv3.OpGet(w.key, clientv3.WithKeysOnly()))
	}
	if g != nil {
		compares = append(compares, clientv3.Compare(clientv3.ModRevision(g.key), "=", g.revision))
		looks = append(looks, clientv3.OpGet(g.key))
	}
	return s.client.Txn(ctx).If(compares...).Then(operation).Else(looks...).Commit()
}

// stored returns the object as the next reader will see it.
func (s *Store) stored(w write, resp *clientv3.TxnResponse) (scheme.Object, error) {
	obj, err := s.decode(w.kind, &mvccpb.KeyValue{Key: []byte(w.key), Value: w.data, ModRevision: resp.Header.Revision})
	if lease, ok := obj.(*coordinationv1.Lease); ok {
		// A leader mostly renews its lease through the apiserver that it writes through; its next
		// write then need not fail first.
		s.sightings.renew(w.key, sighting{revision: resp.Header.Revision, held: fence.Of(lease)})
	}
	return obj, err
}

func isEvent(kind *scheme.Kind) bool {
	return kind.Storage.Group == "" && kind.Storage.Kind == "Event"
}
