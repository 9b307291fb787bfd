package allocate

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/dualstack"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/network"
)

// portSource allocates ports, either for real or for a dry run.
type portSource interface {
	Take(ctx context.Context, port int32) error
	Any(ctx context.Context) (int32, error)
}

// takePorts allocates the node ports that a service needs and had does not have. had is nil for a
// new service.
func (t *taken) takePorts(ctx context.Context, svc, had *corev1.Service, dryRun bool) error {
	var source portSource = &takenPorts{t}
	if dryRun {
		used, err := t.services.ports.Used(ctx)
		if err != nil {
			return err
		}
		source = &dryPorts{ports: t.services.ports, used: used}
	}
	if dualstack.NodePorts(svc) {
		give := newNodePorts
		if had != nil {
			give = func(ctx context.Context, svc *corev1.Service, source portSource) error {
				return moreNodePorts(ctx, svc, portNodePorts(had), source)
			}
		}
		if err := give(ctx, svc, source); err != nil {
			return err
		}
	}
	if !network.NeedsHealthCheck(svc) || had != nil && network.NeedsHealthCheck(had) && svc.Spec.HealthCheckNodePort != 0 {
		return nil
	}
	return healthCheckPort(ctx, svc, source)
}

func healthCheckPort(ctx context.Context, svc *corev1.Service, source portSource) error {
	port := svc.Spec.HealthCheckNodePort
	if port != 0 {
		if err := source.Take(ctx, port); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort %v: %w", port, err))
		}
		return nil
	}
	port, err := source.Any(ctx)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a HealthCheck NodePort %v: %w", port, err))
	}
	svc.Spec.HealthCheckNodePort = port
	return nil
}

func takeNodePort(ctx context.Context, svc *corev1.Service, i int, port int32, source portSource) error {
	if err := source.Take(ctx, port); err != nil {
		return invalid(svc, field.NewPath("spec", "ports").Index(i).Child("nodePort"), port, err.Error())
	}
	svc.Spec.Ports[i].NodePort = port
	return nil
}

func anyNodePort(ctx context.Context, svc *corev1.Service, i int, source portSource) error {
	port, err := source.Any(ctx)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
	}
	svc.Spec.Ports[i].NodePort = port
	return nil
}

// newNodePorts allocates the node ports of a new service: one for all protocols of a port.
func newNodePorts(ctx context.Context, svc *corev1.Service, source portSource) error {
	given := map[int32]int32{} // by port
	asked := func(port int32) int32 {
		for _, p := range svc.Spec.Ports {
			if p.Port == port && p.NodePort != 0 {
				return p.NodePort
			}
		}
		return 0
	}
	for i := range svc.Spec.Ports {
		port := &svc.Spec.Ports[i]
		if port.NodePort == 0 && !wantsNodePorts(svc) {
			continue
		}
		var err error
		switch had, wanted := given[port.Port], asked(port.Port); {
		case had == 0 && wanted != 0:
			err = takeNodePort(ctx, svc, i, wanted, source)
		case had == 0:
			err = anyNodePort(ctx, svc, i, source)
		case port.NodePort == 0:
			port.NodePort = had
		case port.NodePort != had:
			err = takeNodePort(ctx, svc, i, port.NodePort, source)
		}
		if err != nil {
			return err
		}
		if given[port.Port] == 0 {
			given[port.Port] = port.NodePort
		}
	}
	return nil
}

// moreNodePorts allocates the missing node ports of a service that had some.
func moreNodePorts(ctx context.Context, svc *corev1.Service, had []int32, source portSource) error {
	for i := range svc.Spec.Ports {
		port := svc.Spec.Ports[i].NodePort
		var err error
		switch {
		case port == 0 && !wantsNodePorts(svc), slices.Contains(had, port):
		case port == 0:
			err = anyNodePort(ctx, svc, i, source)
		default:
			err = takeNodePort(ctx, svc, i, port, source)
		}
		if err != nil {
			return err
		}
		if port := svc.Spec.Ports[i].NodePort; port != 0 {
			had = append(slices.Clip(had), port) // One node port may serve several protocols.
		}
	}
	return nil
}

// wantsNodePorts reports whether the ports of a service get node ports that it did not ask for.
func wantsNodePorts(svc *corev1.Service) bool {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return true
	}
	return svc.Spec.AllocateLoadBalancerNodePorts == nil || *svc.Spec.AllocateLoadBalancerNodePorts
}

// portNodePorts returns the node ports of a service's ports.
func portNodePorts(svc *corev1.Service) []int32 {
	var ports []int32
	for _, port := range svc.Spec.Ports {
		if port.NodePort != 0 && !slices.Contains(ports, port.NodePort) {
			ports = append(ports, port.NodePort)
		}
	}
	return ports
}

// nodePorts returns all node ports that a service holds.
func nodePorts(svc *corev1.Service) []int32 {
	ports := portNodePorts(svc)
	if hc := svc.Spec.HealthCheckNodePort; hc != 0 {
		ports = append(ports, hc)
	}
	return ports
}

// takenPorts records what it allocates, so that it can be released again.
type takenPorts struct{ taken *taken }

func (p *takenPorts) Take(ctx context.Context, port int32) error {
	if err := p.taken.services.ports.Take(ctx, port); err != nil {
		return err
	}
	p.taken.ports = append(p.taken.ports, port)
	return nil
}

func (p *takenPorts) Any(ctx context.Context) (int32, error) {
	port, err := p.taken.services.ports.Any(ctx)
	if err == nil {
		p.taken.ports = append(p.taken.ports, port)
	}
	return port, err
}

// dryPorts returns free ports, each only once, but allocates none.
type dryPorts struct {
	ports *Ports
	used  []int32
}

func (p *dryPorts) Take(_ context.Context, port int32) error {
	if err := p.ports.Check(port); err != nil {
		return err
	}
	if slices.Contains(p.used, port) {
		return errPortTaken
	}
	p.used = append(p.used, port)
	return nil
}

func (p *dryPorts) Any(_ context.Context) (int32, error) {
	free, ok := p.ports.pick(func(port int32) bool { return slices.Contains(p.used, port) })
	if !ok {
		return 0, errFull
	}
	p.used = append(p.used, free)
	return free, nil
}
