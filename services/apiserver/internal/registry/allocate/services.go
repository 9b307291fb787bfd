package allocate

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/scheme"
)

// Services allocates the addresses and ports of services. It is safe for concurrent use.
type Services struct {
	ips   *IPs
	ports *Ports
	log   *slog.Logger
}

// NewServices returns the allocator of services' addresses and ports. It logs everything that it
// cannot release at once; Repair finds that later.
func NewServices(ips *IPs, ports *Ports, log *slog.Logger) *Services {
	return &Services{ips: ips, ports: ports, log: log}
}

// Taken is what was allocated for one write of a service. A nil *Taken is empty.
type Taken struct {
	services *Services
	service  types.NamespacedName
	ips      []netip.Addr
	ports    []int32
}

// GiveBack releases what was allocated, after a write that certainly did not happen. It continues
// after the request has ended, and regardless of a fence in ctx.
func (t *Taken) GiveBack(ctx context.Context) {
	if t == nil {
		return
	}
	ctx = fence.Without(context.WithoutCancel(ctx))
	for _, ip := range t.ips {
		if err := t.services.ips.Release(ctx, ip, t.service); err != nil {
			t.services.log.Warn("failed to release a service address", "address", ip,
				"namespace", t.service.Namespace, "name", t.service.Name, "err", err)
		}
	}
	if len(t.ports) > 0 {
		if err := t.services.ports.Release(ctx, t.ports...); err != nil {
			t.services.log.Warn("failed to release node ports", "ports", t.ports,
				"namespace", t.service.Namespace, "name", t.service.Name, "err", err)
		}
	}
	t.ips, t.ports = nil, nil
}

// Allocate allocates the addresses and ports that a service needs for a write and old lacks; old is
// nil for a new service. The service's IPFamilies say which addresses it gets. A dry run returns
// what is free and allocates nothing. Objects of other kinds need nothing.
func (a *Services) Allocate(ctx context.Context, obj, old scheme.Object, dryRun bool) (*Taken, error) {
	svc, ok := obj.(*corev1.Service)
	if !ok {
		return nil, nil
	}
	t := &Taken{services: a, service: types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}}
	had, _ := old.(*corev1.Service)
	err := t.takeIPs(ctx, svc, had, dryRun)
	if err == nil {
		err = t.takePorts(ctx, svc, had, dryRun)
	}
	if err != nil {
		t.GiveBack(ctx)
		// The lost fence is the reason that the allocation failed.
		if lost := a.ips.store.CheckFence(ctx, true); fence.IsLost(lost) {
			return nil, lost
		}
		return nil, err
	}
	return t, nil
}

func invalid(svc *corev1.Service, path *field.Path, value any, message string) error {
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), svc.Name,
		field.ErrorList{field.Invalid(path, value, message)})
}

func (t *Taken) takeIPs(ctx context.Context, svc, had *corev1.Service, dryRun bool) error {
	spec := &svc.Spec
	if spec.Type == corev1.ServiceTypeExternalName || spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	for i, family := range spec.IPFamilies {
		if i == len(spec.ClusterIPs) {
			spec.ClusterIPs = append(slices.Clip(spec.ClusterIPs), "")
		}
		text := spec.ClusterIPs[i]
		switch {
		case text == "":
			ip, err := t.anyIP(ctx, family, dryRun)
			if err != nil {
				return apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP: %w", err))
			}
			spec.ClusterIPs[i] = ip.String()
		case had != nil && slices.Contains(had.Spec.ClusterIPs, text):
		default:
			if err := t.takeIP(ctx, text, dryRun); err != nil {
				return invalid(svc, field.NewPath("spec", "clusterIPs"), spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %s: %v", text, err))
			}
		}
	}
	if len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	return nil
}

func (t *Taken) anyIP(ctx context.Context, family corev1.IPFamily, dryRun bool) (netip.Addr, error) {
	if dryRun {
		return t.services.ips.Free(ctx, family)
	}
	ip, err := t.services.ips.Any(ctx, family, t.service)
	if err == nil {
		t.ips = append(t.ips, ip)
	}
	return ip, err
}

func (t *Taken) takeIP(ctx context.Context, text string, dryRun bool) error {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return err
	}
	if dryRun {
		return t.services.ips.Check(ctx, addr)
	}
	if err := t.services.ips.Take(ctx, addr, t.service); err != nil {
		return err
	}
	t.ips = append(t.ips, addr)
	return nil
}

// Release releases what a service held before a write and does not hold after it; now is nil after
// a deletion.
func (a *Services) Release(ctx context.Context, before, now scheme.Object) {
	had, ok := before.(*corev1.Service)
	if !ok {
		return
	}
	has := &corev1.Service{}
	if s, ok := now.(*corev1.Service); ok {
		has = s
	}
	t := &Taken{services: a, service: types.NamespacedName{Namespace: had.Namespace, Name: had.Name}}
	for _, text := range had.Spec.ClusterIPs {
		if addr, err := netip.ParseAddr(text); err == nil && !slices.Contains(has.Spec.ClusterIPs, text) {
			t.ips = append(t.ips, addr)
		}
	}
	kept := nodePorts(has)
	for _, port := range nodePorts(had) {
		if !slices.Contains(kept, port) {
			t.ports = append(t.ports, port)
		}
	}
	t.GiveBack(ctx)
}
