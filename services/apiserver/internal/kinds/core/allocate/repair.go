package allocate

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// grace is how long an address may be without a service before Repair frees it: longer than any
// request lasts.
const grace = 2 * time.Minute

// leakedRounds is for how many repairs in a row a port must be without a service before it is
// freed: no request lasts that long.
const leakedRounds = 3

// Leaked counts for how many repairs in a row each port had no service.
type Leaked map[int32]int

// Forget deletes the record of an address whose service was never written.
func (a *Services) Forget(ctx context.Context, addr netip.Addr, service types.NamespacedName) error {
	return a.ips.Release(ctx, addr, service)
}

// Repair updates the records of addresses and ports to match the services from list, which it calls
// after reading the ports in use. leaked is kept from one repair to the next.
func (a *Services) Repair(ctx context.Context, leaked Leaked, list func(context.Context) ([]*corev1.Service, error)) error {
	used, err := a.ports.Used(ctx)
	if err != nil {
		return err
	}
	services, err := list(ctx)
	if err != nil {
		return err
	}
	held := map[int32]bool{}
	for _, service := range services {
		for _, port := range nodePorts(service) {
			held[port] = true
		}
	}
	err = a.ips.Repair(ctx, services, func(addr netip.Addr, service, owner types.NamespacedName) {
		a.log.Error("two services have one address", "address", addr, "service", service, "owner", owner)
	})
	if err != nil {
		return err
	}
	return a.repairPorts(ctx, used, held, leaked)
}

func (a *Services) repairPorts(ctx context.Context, used []int32, held map[int32]bool, leaked Leaked) error {
	var free, missing []int32
	recorded := map[int32]bool{}
	for _, port := range used {
		recorded[port] = true
		if held[port] {
			delete(leaked, port)
		} else if leaked[port]++; leaked[port] >= leakedRounds {
			free = append(free, port)
			delete(leaked, port)
		}
	}
	for port := range held {
		if !recorded[port] {
			missing = append(missing, port)
		}
	}
	for port := range leaked {
		if !recorded[port] {
			delete(leaked, port)
		}
	}
	if len(free) > 0 {
		if err := a.ports.Release(ctx, free...); err != nil {
			return fmt.Errorf("freeing node ports without a service: %w", err)
		}
	}
	if len(missing) > 0 {
		if err := a.ports.Record(ctx, missing); err != nil {
			return fmt.Errorf("recording the node ports of services: %w", err)
		}
	}
	return nil
}

// Repair updates the addresses in etcd to match services: it records missing ones, and frees those
// that have been without a service for some minutes. Addresses that others have recorded for
// themselves stay. Repair calls conflict for an address that two services hold, which only
// hand-written data can cause.
func (a *ipAllocator) Repair(ctx context.Context, services []*corev1.Service, conflict func(addr netip.Addr, service, owner types.NamespacedName)) error {
	page, err := a.store.List(ctx, a.addresses, store.ListOptions{})
	if err != nil {
		return fmt.Errorf("repairing service addresses: %w", err)
	}
	// idle are the records of addresses that no service holds.
	owners, idle := map[netip.Addr]types.NamespacedName{}, map[netip.Addr]*networkingv1.IPAddress{}
	for _, obj := range page.Objects {
		if ip, ok := obj.(*networkingv1.IPAddress); ok {
			if addr, err := netip.ParseAddr(ip.Name); err == nil {
				owners[addr], idle[addr] = ownerOf(ip), ip
			}
		}
	}
	for _, svc := range services {
		service := types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
		for _, text := range svc.Spec.ClusterIPs {
			addr, err := netip.ParseAddr(text)
			if err != nil {
				continue // headless
			}
			delete(idle, addr)
			if owner, ok := owners[addr]; ok {
				if owner != service {
					conflict(addr, service, owner)
				}
				continue
			}
			switch err := a.create(ctx, addr, service); {
			case err == nil:
				owners[addr] = service
			case !errors.Is(err, errTaken): // A record that is newer than the list: the next repair reads it.
				return err
			}
		}
	}
	for addr, ip := range idle {
		if ip.Labels[networkingv1.LabelManagedBy] != managedBy || time.Since(ip.CreationTimestamp.Time) < grace {
			continue
		}
		if err := a.Release(ctx, addr, owners[addr]); err != nil {
			return err
		}
	}
	return nil
}
