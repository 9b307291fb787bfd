package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/etcd"
)

// memberPrefix, below the store's prefix, is where kube-apiserver's lease reconciler keeps the
// addresses of live apiservers.
const memberPrefix = "masterleases/"

// KeepMember records that the apiserver at an address is alive for a duration from now, in whole
// seconds. Kubernetes' own apiservers record it in the same way.
func (s *Store) KeepMember(ctx context.Context, address netip.Addr, life time.Duration) error {
	kind := scheme.For[*corev1.Endpoints](s.table)
	key := s.prefix + memberPrefix + address.String()
	resp, err := s.client.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("reading %s: %w", key, etcd.APIError(err))
	}
	member := &corev1.Endpoints{}
	if len(resp.Kvs) > 0 {
		// Replace a value that cannot be read.
		if known, err := s.recordOf(kind, resp.Kvs[0]); err == nil {
			member = known
		}
	}
	member.ResourceVersion = ""
	member.Generation++ // Kubernetes increments it so that a write happens.
	member.Subsets = []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: address.String()}}}}
	data, err := s.encode(kind, member)
	if err != nil {
		return err
	}
	lease, err := s.client.Grant(ctx, int64(life/time.Second))
	if err != nil {
		return fmt.Errorf("granting the lease of %s: %w", key, etcd.APIError(err))
	}
	if _, err := s.client.Put(ctx, key, string(data), clientv3.WithLease(lease.ID)); err != nil {
		return fmt.Errorf("writing %s: %w", key, etcd.APIError(err))
	}
	return nil
}

// ForgetMember removes the record of the apiserver at an address.
func (s *Store) ForgetMember(ctx context.Context, address netip.Addr) error {
	key := s.prefix + memberPrefix + address.String()
	if _, err := s.client.Delete(ctx, key); err != nil {
		return fmt.Errorf("deleting %s: %w", key, etcd.APIError(err))
	}
	return nil
}

// Members returns the addresses of the live apiservers, sorted.
func (s *Store) Members(ctx context.Context) ([]netip.Addr, error) {
	prefix := s.prefix + memberPrefix
	resp, err := s.client.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", prefix, etcd.APIError(err))
	}
	kind := scheme.For[*corev1.Endpoints](s.table)
	var members []netip.Addr
	for _, kv := range resp.Kvs {
		member, err := s.recordOf(kind, kv)
		if err != nil {
			s.logger.WarnContext(ctx, "an apiserver's record cannot be read", "key", string(kv.Key), "err", err)
			continue
		}
		if len(member.Subsets) == 0 || len(member.Subsets[0].Addresses) == 0 {
			continue
		}
		if address, err := netip.ParseAddr(strings.TrimSpace(member.Subsets[0].Addresses[0].IP)); err == nil {
			members = append(members, address)
		}
	}
	slices.SortFunc(members, netip.Addr.Compare)
	return slices.Compact(members), nil
}

func (s *Store) recordOf(kind *scheme.Kind, kv *mvccpb.KeyValue) (*corev1.Endpoints, error) {
	obj, err := s.decode(kind, kv)
	if err != nil {
		return nil, err
	}
	member, ok := obj.(*corev1.Endpoints)
	if !ok {
		return nil, errors.New("it is not an Endpoints object")
	}
	return member, nil
}
