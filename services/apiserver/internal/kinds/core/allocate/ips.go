package allocate

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// The reasons for not allocating an address or a port, in Kubernetes' words.
var (
	errTaken   = errors.New("provided IP is already allocated")
	errFull    = errors.New("range is full")
	errOutside = errors.New("the provided network does not match the current range")
)

const (
	// DefaultRange is the name of the ServiceCIDR with the ranges that the apiservers are started
	// with.
	DefaultRange = "kubernetes"
	// managedBy marks the addresses that services hold; this package leaves others alone.
	managedBy = "ipallocator.k8s.io"
	// guesses is how many random addresses are tried before the addresses in use are read.
	guesses = 8
)

// ipAllocator allocates addresses from the ranges of the ServiceCIDR objects. It is safe for concurrent
// use.
type ipAllocator struct {
	store             *store.Store
	addresses, ranges *scheme.Kind
}

// newIPAllocator returns the address allocator.
func newIPAllocator(s *store.Store, table *scheme.Table) *ipAllocator {
	return &ipAllocator{store: s, addresses: scheme.For[*networkingv1.IPAddress](table), ranges: scheme.For[*networkingv1.ServiceCIDR](table)}
}

// Ranges returns the ranges of a family from which addresses are allocated: those of every
// ServiceCIDR that is ready and not being deleted, the default one first. It reads etcd, so that a
// range whose deletion has begun allocates nothing more.
func (a *ipAllocator) Ranges(ctx context.Context, family corev1.IPFamily) ([]Range, error) {
	page, err := a.store.List(ctx, a.ranges, store.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the service ranges: %w", err)
	}
	var ranges, others []Range
	for _, obj := range page.Objects {
		cidr, ok := obj.(*networkingv1.ServiceCIDR)
		if !ok || cidr.DeletionTimestamp != nil || meta.IsStatusConditionFalse(cidr.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
			continue
		}
		for _, text := range cidr.Spec.CIDRs {
			prefix, err := netip.ParsePrefix(text)
			if err != nil || prefix.Addr().Is4() != (family == corev1.IPv4Protocol) {
				continue
			}
			if cidr.Name == DefaultRange {
				ranges = append(ranges, NewRange(prefix))
			} else {
				others = append(others, NewRange(prefix))
			}
		}
	}
	return append(ranges, others...), nil
}

// Take allocates a requested address to the service.
func (a *ipAllocator) Take(ctx context.Context, addr netip.Addr, service types.NamespacedName) error {
	return a.take(ctx, addr, func() error { return a.create(ctx, addr, service) })
}

// Check reports, as Take's error, whether Take could allocate an address now.
func (a *ipAllocator) Check(ctx context.Context, addr netip.Addr) error {
	return a.take(ctx, addr, func() error { return a.free(ctx, addr) })
}

func (a *ipAllocator) take(ctx context.Context, addr netip.Addr, try func() error) error {
	family := corev1.IPv4Protocol
	if addr.Is6() {
		family = corev1.IPv6Protocol
	}
	ranges, err := a.Ranges(ctx, family)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(ranges, func(r Range) bool { return r.allocatable(addr) }) {
		return errOutside
	}
	return try()
}

// Any allocates a free address of a family to a service; errFull if there is none.
func (a *ipAllocator) Any(ctx context.Context, family corev1.IPFamily, service types.NamespacedName) (netip.Addr, error) {
	return a.any(ctx, family, func(addr netip.Addr) error { return a.create(ctx, addr, service) })
}

// Free returns an address that Any could allocate now.
func (a *ipAllocator) Free(ctx context.Context, family corev1.IPFamily) (netip.Addr, error) {
	return a.any(ctx, family, func(addr netip.Addr) error { return a.free(ctx, addr) })
}

func (a *ipAllocator) any(ctx context.Context, family corev1.IPFamily, try func(netip.Addr) error) (netip.Addr, error) {
	ranges, err := a.Ranges(ctx, family)
	if err != nil {
		return netip.Addr{}, err
	}
	search := &search{ips: a, try: try}
	for _, r := range ranges {
		for _, b := range r.bands() {
			addr, err := search.in(ctx, r, b)
			if !errors.Is(err, errFull) {
				return addr, err
			}
		}
	}
	return netip.Addr{}, errFull
}

// search looks for one free address.
type search struct {
	ips  *ipAllocator
	try  func(netip.Addr) error
	used map[netip.Addr]bool // the addresses known to be taken; nil until they were read
}

// in searches a part of a range: at random first, which finds an address in a range that is not
// crowded, then among all addresses that are not in use.
func (s *search) in(ctx context.Context, r Range, b band) (netip.Addr, error) {
	if b.size == 0 {
		return netip.Addr{}, errFull
	}
	for range guesses {
		addr := r.at(b.at(b.start(), 0))
		if s.used[addr] {
			continue
		}
		if err := s.try(addr); !errors.Is(err, errTaken) {
			return addr, err
		}
	}
	if s.used == nil {
		used, err := s.ips.inUse(ctx)
		if err != nil {
			return netip.Addr{}, err
		}
		s.used = used
	}
	start := b.start()
	for n := range b.size {
		addr := r.at(b.at(start, n))
		if s.used[addr] {
			continue
		}
		if err := s.try(addr); !errors.Is(err, errTaken) {
			return addr, err
		}
		s.used[addr] = true
	}
	return netip.Addr{}, errFull
}

func (a *ipAllocator) inUse(ctx context.Context) (map[netip.Addr]bool, error) {
	page, err := a.store.List(ctx, a.addresses, store.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the service addresses in use: %w", err)
	}
	used := make(map[netip.Addr]bool, len(page.Objects))
	for _, obj := range page.Objects {
		if addr, err := netip.ParseAddr(obj.GetName()); err == nil {
			used[addr] = true
		}
	}
	return used, nil
}

func (a *ipAllocator) free(ctx context.Context, addr netip.Addr) error {
	_, err := a.store.Get(ctx, a.addresses, "", addr.String())
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("looking for the service address %s: %w", addr, err)
	}
	return errTaken
}

func (a *ipAllocator) create(ctx context.Context, addr netip.Addr, service types.NamespacedName) error {
	family := "IPv4"
	if addr.Is6() {
		family = "IPv6"
	}
	obj := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: addr.String(), UID: uuid.NewUUID(), CreationTimestamp: metav1.Now().Rfc3339Copy(),
			Labels: map[string]string{
				networkingv1.LabelIPAddressFamily: family, networkingv1.LabelManagedBy: managedBy,
			},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Resource: "services", Namespace: service.Namespace, Name: service.Name,
		}},
	}
	_, err := a.store.Create(ctx, a.addresses, obj)
	switch {
	case apierrors.IsAlreadyExists(err):
		return errTaken
	case err != nil:
		return fmt.Errorf("allocating the service address %s: %w", addr, err)
	}
	return nil
}

// Release releases an address of a service. An address that another service holds, or none, stays
// as it is.
func (a *ipAllocator) Release(ctx context.Context, addr netip.Addr, service types.NamespacedName) error {
	errOther := errors.New("the address is another service's")
	_, err := a.store.Delete(ctx, a.addresses, "", addr.String(), func(current scheme.Object) error {
		if ip, ok := current.(*networkingv1.IPAddress); !ok || ownerOf(ip) != service {
			return errOther
		}
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) && !errors.Is(err, errOther) {
		return fmt.Errorf("releasing the service address %s: %w", addr, err)
	}
	return nil
}

// ownerOf returns the service that holds an address; none if something else does.
func ownerOf(ip *networkingv1.IPAddress) types.NamespacedName {
	ref := ip.Spec.ParentRef
	if ref == nil || ref.Group != "" || ref.Resource != "services" {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
}
