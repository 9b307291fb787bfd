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

	"github.com/garboard/garboard/libs/scheme"
)

// Services gives services their addresses and ports. It may be used from any goroutine.
type Services struct {
	ips   *IPs
	ports *Ports
	log   *slog.Logger
}

// NewServices makes the allocator of services' addresses and ports. What cannot be given back
// at once is logged, and found by Repair.
func NewServices(ips *IPs, ports *Ports, log *slog.Logger) *Services {
	return &Services{ips: ips, ports: ports, log: log}
}

// Taken is what was allocated for one write of a service. A nil *Taken is nothing.
type Taken struct {
	services *Services
	service  types.NamespacedName
	ips      []netip.Addr
	ports    []int32
}

// GiveBack gives back what was taken, after a write that etcd has certainly not made. It goes
// on after the request has ended.
func (t *Taken) GiveBack(ctx context.Context) {
	if t == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	for _, ip := range t.ips {
		if err := t.services.ips.Release(ctx, ip, t.service); err != nil {
			t.services.log.Warn("giving back a service address", "address", ip, "service", t.service, "err", err)
		}
	}
	if len(t.ports) > 0 {
		if err := t.services.ports.Release(ctx, t.ports...); err != nil {
			t.services.log.Warn("giving back node ports", "ports", t.ports, "service", t.service, "err", err)
		}
	}
	t.ips, t.ports = nil, nil
}

// Allocate gives a service that is about to be written the addresses and ports that it needs
// and old, which may be nil, does not have. A dry run looks only at what can be checked
// without writing. Objects of other kinds need nothing.
func (a *Services) Allocate(ctx context.Context, obj, old scheme.Object, dryRun bool) (*Taken, error) {
	svc, ok := obj.(*corev1.Service)
	if !ok {
		return nil, nil
	}
	t := &Taken{services: a}
	had := &corev1.Service{}
	if o, ok := old.(*corev1.Service); ok {
		had = o
	}
	t.service = types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
	errs, err := t.takeIPs(ctx, svc, had, dryRun)
	if err == nil {
		var more field.ErrorList
		more, err = t.takePorts(ctx, svc, had, dryRun)
		errs = append(errs, more...)
	}
	if err == nil && len(errs) > 0 {
		err = apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), svc.Name, errs)
	}
	if err != nil {
		t.GiveBack(ctx)
		return nil, err
	}
	return t, nil
}

func (t *Taken) takeIPs(ctx context.Context, svc, had *corev1.Service, dryRun bool) (field.ErrorList, error) {
	if svc.Spec.Type == corev1.ServiceTypeExternalName || svc.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil, nil
	}
	if svc.Spec.ClusterIP == "" {
		if dryRun {
			return nil, nil
		}
		ip, err := t.services.ips.Any(ctx, t.service)
		if err != nil {
			return nil, apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP: %w", err))
		}
		t.ips = append(t.ips, ip)
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = ip.String(), []string{ip.String()}
		return nil, nil
	}
	for _, text := range svc.Spec.ClusterIPs {
		if slices.Contains(had.Spec.ClusterIPs, text) || dryRun {
			continue
		}
		addr, err := netip.ParseAddr(text)
		if err == nil {
			err = t.services.ips.Take(ctx, addr, t.service)
		}
		if err != nil {
			return field.ErrorList{field.Invalid(field.NewPath("spec", "clusterIPs"), svc.Spec.ClusterIPs,
				fmt.Sprintf("failed to allocate IP %s: %v", text, err))}, nil
		}
		t.ips = append(t.ips, addr)
	}
	return nil, nil
}

func (t *Taken) takePorts(ctx context.Context, svc, had *corev1.Service, dryRun bool) (field.ErrorList, error) {
	if !needsNodePorts(svc) {
		return nil, nil
	}
	var errs field.ErrorList
	mine := nodePorts(had)
	taking := map[int32]bool{}
	for i := range svc.Spec.Ports {
		port := &svc.Spec.Ports[i]
		switch {
		case port.NodePort == 0 && dryRun:
		case port.NodePort == 0:
			given, err := t.services.ports.Any(ctx)
			if err != nil {
				return nil, apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
			}
			port.NodePort = given
			t.ports = append(t.ports, given)
		case slices.Contains(mine, port.NodePort), taking[port.NodePort]:
			// One port may serve several protocols of the same service.
		default:
			err := t.services.ports.Check(port.NodePort)
			if err == nil && !dryRun {
				err = t.services.ports.Take(ctx, port.NodePort)
			}
			if err != nil {
				errs = append(errs, field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), port.NodePort, err.Error()))
				continue
			}
			taking[port.NodePort] = true
			if !dryRun {
				t.ports = append(t.ports, port.NodePort)
			}
		}
	}
	return errs, nil
}

// needsNodePorts says whether the ports of a service must have node ports.
func needsNodePorts(svc *corev1.Service) bool {
	switch svc.Spec.Type {
	case corev1.ServiceTypeNodePort:
		return true
	case corev1.ServiceTypeLoadBalancer:
		return svc.Spec.AllocateLoadBalancerNodePorts == nil || *svc.Spec.AllocateLoadBalancerNodePorts
	}
	return false
}

// nodePorts are the node ports that a service holds.
func nodePorts(svc *corev1.Service) []int32 {
	var ports []int32
	for _, port := range svc.Spec.Ports {
		if port.NodePort != 0 && !slices.Contains(ports, port.NodePort) {
			ports = append(ports, port.NodePort)
		}
	}
	if hc := svc.Spec.HealthCheckNodePort; hc != 0 {
		ports = append(ports, hc)
	}
	return ports
}

// Release gives back what a service held before a write and does not hold after it; now is
// nil after a deletion.
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
