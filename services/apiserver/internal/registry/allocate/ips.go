package allocate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/store"
)

// The reasons for which an address or a port is not given, in Kubernetes' words.
var (
	ErrTaken = errors.New("provided IP is already allocated")
	ErrFull  = errors.New("range is full")
)

// grace is how long an address may have no service before Repair frees it: longer than any
// request lasts.
const grace = 2 * time.Minute

// maxHosts bounds the range, as Kubernetes bounds the IPv6 one: addresses beyond it are not
// given without being asked for.
const maxHosts = 1 << 32

// IPs gives out the addresses of one range. It may be used from any goroutine.
type IPs struct {
	store  *store.Store
	kind   *scheme.Kind
	prefix netip.Prefix
	hosts  uint64 // addresses that may be given; the first is base+1
}

// NewIPs makes the allocator of an IPv4 or IPv6 range, which must have room for one service
// at least: the network's own address and, in IPv4, its broadcast address are never given.
func NewIPs(s *store.Store, prefix netip.Prefix) (*IPs, error) {
	prefix = prefix.Masked()
	bits := prefix.Addr().BitLen() - prefix.Bits()
	if !prefix.IsValid() || bits < 2 {
		return nil, fmt.Errorf("the service range %s is too small: it needs four addresses", prefix)
	}
	hosts := uint64(maxHosts)
	if bits < 32 {
		hosts = 1 << bits
	}
	hosts-- // The network's own address.
	if prefix.Addr().Is4() {
		hosts-- // The broadcast address.
	}
	gvk := networkingv1.SchemeGroupVersion.WithKind("IPAddress")
	kind := &scheme.Kind{
		GroupVersionKind: gvk, Resource: "ipaddresses", Singular: "ipaddress", StoragePrefix: "ipaddresses", Storage: gvk,
	}
	return &IPs{store: s, kind: kind, prefix: prefix, hosts: hosts}, nil
}

// First is the range's first address, which the `kubernetes` Service has.
func (a *IPs) First() netip.Addr { return a.at(0) }

// Range is the range that addresses come from.
func (a *IPs) Range() netip.Prefix { return a.prefix }

// at gives the address at an offset, from 0.
func (a *IPs) at(offset uint64) netip.Addr {
	if a.prefix.Addr().Is4() {
		b := a.prefix.Addr().As4()
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(offset)+1)
		return netip.AddrFrom4(b)
	}
	b := a.prefix.Addr().As16()
	binary.BigEndian.PutUint64(b[8:], binary.BigEndian.Uint64(b[8:])+offset+1)
	return netip.AddrFrom16(b)
}

// Take gives an address that the service asks for to it.
func (a *IPs) Take(ctx context.Context, addr netip.Addr, service types.NamespacedName) error {
	last := a.at(a.hosts - 1)
	if !a.prefix.Contains(addr) || addr.Less(a.First()) || last.Less(addr) {
		return fmt.Errorf("the provided IP (%s) is not in the valid range. The range of valid IPs is %s", addr, a.prefix)
	}
	return a.create(ctx, addr, service)
}

// Any gives a free address to a service; ErrFull if there is none. Like Kubernetes, it
// prefers the upper part of the range, so that people who choose addresses themselves from
// the lower part seldom find theirs taken.
func (a *IPs) Any(ctx context.Context, service types.NamespacedName) (netip.Addr, error) {
	lower := min(max(16, a.hosts/16), 256)
	if lower >= a.hosts {
		lower = 0
	}
	for _, band := range []struct{ first, size uint64 }{{lower, a.hosts - lower}, {0, lower}} {
		if band.size == 0 {
			continue
		}
		start := rand.Uint64N(band.size)
		for i := range band.size {
			addr := a.at(band.first + (start+i)%band.size)
			err := a.create(ctx, addr, service)
			if err == nil {
				return addr, nil
			}
			if !errors.Is(err, ErrTaken) {
				return netip.Addr{}, err
			}
		}
	}
	return netip.Addr{}, ErrFull
}

func (a *IPs) create(ctx context.Context, addr netip.Addr, service types.NamespacedName) error {
	family := "IPv4"
	if addr.Is6() {
		family = "IPv6"
	}
	obj := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: addr.String(), UID: uuid.NewUUID(), CreationTimestamp: metav1.Now().Rfc3339Copy(),
			Labels: map[string]string{
				networkingv1.LabelIPAddressFamily: family, networkingv1.LabelManagedBy: "ipallocator.k8s.io",
			},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Resource: "services", Namespace: service.Namespace, Name: service.Name,
		}},
	}
	_, err := a.store.Create(ctx, a.kind, obj)
	switch {
	case apierrors.IsAlreadyExists(err):
		return ErrTaken
	case err != nil:
		return fmt.Errorf("allocating the service address %s: %w", addr, err)
	}
	return nil
}

// Release takes an address back from a service. An address that is another's, or nobody's,
// stays as it is.
func (a *IPs) Release(ctx context.Context, addr netip.Addr, service types.NamespacedName) error {
	errOther := errors.New("the address is another service's")
	_, err := a.store.Delete(ctx, a.kind, "", addr.String(), func(current scheme.Object) error {
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

// Repair makes etcd's addresses those of services: it records what is missing, and frees
// what has had no service for some minutes. conflict is called for an address that two
// services hold, which only hand-written data can cause.
func (a *IPs) Repair(ctx context.Context, services []*corev1.Service, conflict func(addr netip.Addr, service, owner types.NamespacedName)) error {
	page, err := a.store.List(ctx, a.kind, store.ListOptions{})
	if err != nil {
		return fmt.Errorf("repairing service addresses: %w", err)
	}
	known := map[netip.Addr]*networkingv1.IPAddress{}
	for _, obj := range page.Objects {
		if ip, ok := obj.(*networkingv1.IPAddress); ok {
			if addr, err := netip.ParseAddr(ip.Name); err == nil {
				known[addr] = ip
			}
		}
	}
	for _, svc := range services {
		service := types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
		for _, text := range svc.Spec.ClusterIPs {
			addr, err := netip.ParseAddr(text)
			if err != nil {
				continue // Headless.
			}
			if ip := known[addr]; ip != nil {
				if owner := ownerOf(ip); owner != service {
					conflict(addr, service, owner)
				}
				delete(known, addr)
			} else if err := a.create(ctx, addr, service); err != nil && !errors.Is(err, ErrTaken) {
				return err
			}
		}
	}
	for addr, ip := range known {
		if time.Since(ip.CreationTimestamp.Time) < grace {
			continue
		}
		if err := a.Release(ctx, addr, ownerOf(ip)); err != nil {
			return err
		}
	}
	return nil
}

func ownerOf(ip *networkingv1.IPAddress) types.NamespacedName {
	if ip.Spec.ParentRef == nil {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: ip.Spec.ParentRef.Namespace, Name: ip.Spec.ParentRef.Name}
}
