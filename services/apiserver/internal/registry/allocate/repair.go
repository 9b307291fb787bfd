package allocate

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// leakedRounds is for how many repairs in a row a port must have no service before it is
// freed: no request lasts so long.
const leakedRounds = 3

// Leaked counts for how many repairs in a row a port had no service.
type Leaked map[int32]int

// First is the first address of the range, which the `kubernetes` Service has.
func (a *Services) First() netip.Addr { return a.ips.First() }

// Forget drops the record of an address whose service was never written.
func (a *Services) Forget(ctx context.Context, addr netip.Addr, service types.NamespacedName) error {
	return a.ips.Release(ctx, addr, service)
}

// Repair makes the records of addresses and ports those of the services that list gives, which
// is asked after the ports in use were read. leaked is kept from one repair to the next.
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
