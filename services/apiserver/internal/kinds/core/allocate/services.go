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
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// Services allocates the addresses and ports of services. It is safe for concurrent use.
type Services struct {
	ips   *ipAllocator
	ports *Ports
	log   *slog.Logger
}

// Config configures a Services. Store and Table are required.
type Config struct {
	Store *store.Store
	Table *scheme.Table
	// NodePorts is the range of node ports; the zero value means DefaultNodePorts.
	NodePorts PortRange
	// Logger receives what cannot be released at once; slog.Default if nil. Repair finds it later.
	Logger *slog.Logger
}

// New returns the allocator of services' addresses and ports.
func New(config Config) (*Services, error) {
	if config.NodePorts == (PortRange{}) {
		config.NodePorts = DefaultNodePorts()
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	ports, err := NewPorts(config.Store, config.NodePorts)
	if err != nil {
		return nil, err
	}
	return &Services{ips: newIPAllocator(config.Store, config.Table), ports: ports, log: config.Logger}, nil
}

// taken is what was allocated for one write of a service.
type taken struct {
	services *Services
	service  types.NamespacedName
	ips      []netip.Addr
	ports    []int32
}

// giveBack releases what was allocated. It continues after the request has ended, and regardless of
// a fence in ctx.
func (t *taken) giveBack(ctx context.Context) {
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

// Reserve implements kinds.Reserver for services. A service's IPFamilies say which addresses it
// gets.
func (a *Services) Reserve(ctx context.Context, obj, old scheme.Object, dryRun bool) (giveBack func(context.Context), err error) {
	svc, ok := obj.(*corev1.Service)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("allocating the addresses of a service: got a %T", obj))
	}
	t := &taken{services: a, service: types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}}
	had, _ := old.(*corev1.Service)
	err = t.takeIPs(ctx, svc, had, dryRun)
	if err == nil {
		err = t.takePorts(ctx, svc, had, dryRun)
	}
	if err != nil {
		t.giveBack(ctx)
		// The lost fence is the reason that the allocation failed.
		if lost := a.ips.store.CheckFence(ctx, true); fence.IsLost(lost) {
			return nil, lost
		}
		return nil, err
	}
	return t.giveBack, nil
}

func invalid(svc *corev1.Service, path *field.Path, value any, message string) error {
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), svc.Name,
		field.ErrorList{field.Invalid(path, value, message)})
}

func (t *taken) takeIPs(ctx context.Context, svc, had *corev1.Service, dryRun bool) error {
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

func (t *taken) anyIP(ctx context.Context, family corev1.IPFamily, dryRun bool) (netip.Addr, error) {
	if dryRun {
		return t.services.ips.Free(ctx, family)
	}
	ip, err := t.services.ips.Any(ctx, family, t.service)
	if err == nil {
		t.ips = append(t.ips, ip)
	}
	return ip, err
}

func (t *taken) takeIP(ctx context.Context, text string, dryRun bool) error {
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

// Release implements kinds.Reserver for services.
func (a *Services) Release(ctx context.Context, before, now scheme.Object) {
	had, ok := before.(*corev1.Service)
	if !ok {
		return
	}
	has := &corev1.Service{}
	if s, ok := now.(*corev1.Service); ok {
		has = s
	}
	t := &taken{services: a, service: types.NamespacedName{Namespace: had.Namespace, Name: had.Name}}
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
	t.giveBack(ctx)
}
