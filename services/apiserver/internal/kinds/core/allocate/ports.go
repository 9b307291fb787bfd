package allocate

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// errPortTaken reports that another service holds a port, in Kubernetes' words.
var errPortTaken = errors.New("provided port is already allocated")

// portsName is the name of the port bitmap below "ranges" in etcd.
const portsName = "servicenodeports"

// PortRange is the ports from First to Last, inclusive.
type PortRange struct{ First, Last int32 }

// DefaultNodePorts is Kubernetes' default range of node ports.
func DefaultNodePorts() PortRange { return PortRange{First: 30000, Last: 32767} }

// String returns the range as Kubernetes writes it.
func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

// Ports allocates the node ports of one range. It is safe for concurrent use.
type Ports struct {
	store *store.Store
	kind  *scheme.Kind
	ports PortRange
}

// NewPorts returns the allocator of a range of ports.
func NewPorts(s *store.Store, ports PortRange) (*Ports, error) {
	if ports.First < 1 || ports.Last > 65535 || ports.Last < ports.First {
		return nil, fmt.Errorf("the node port range %s is not a range of ports", ports)
	}
	gvk := corev1.SchemeGroupVersion.WithKind("RangeAllocation")
	kind := &scheme.Kind{GroupVersionKind: gvk, Resource: "rangeallocations", StoragePrefix: "ranges", Storage: gvk}
	return &Ports{store: s, kind: kind, ports: ports}, nil
}

// Take allocates a requested port.
func (p *Ports) Take(ctx context.Context, port int32) error {
	if err := p.Check(port); err != nil {
		return err
	}
	return p.change(ctx, func(used *big.Int) error {
		bit := int(port - p.ports.First)
		if used.Bit(bit) == 1 {
			return errPortTaken
		}
		used.SetBit(used, bit, 1)
		return nil
	})
}

// Check returns an error if a port is not in the range.
func (p *Ports) Check(port int32) error {
	if port < p.ports.First || port > p.ports.Last {
		return fmt.Errorf("provided port is not in the valid range. The range of valid ports is %s", p.ports)
	}
	return nil
}

// Any allocates a free port; errFull if there is none.
func (p *Ports) Any(ctx context.Context) (int32, error) {
	var port int32
	err := p.change(ctx, func(used *big.Int) error {
		free, ok := p.pick(func(port int32) bool { return used.Bit(int(port-p.ports.First)) == 1 })
		if !ok {
			return errFull
		}
		used.SetBit(used, int(free-p.ports.First), 1)
		port = free
		return nil
	})
	return port, err
}

// pick chooses a port that is not used. Like ipAllocator, it prefers the upper part of the range.
func (p *Ports) pick(used func(port int32) bool) (int32, bool) {
	size := int(p.ports.Last-p.ports.First) + 1
	lower := 0
	if size > 16 {
		lower = min(max(16, size/32), 128)
	}
	for _, band := range [][2]int{{lower, size - lower}, {0, lower}} {
		if band[1] == 0 {
			continue
		}
		start := rand.IntN(band[1])
		for i := range band[1] {
			port := p.ports.First + int32(band[0]+(start+i)%band[1])
			if !used(port) {
				return port, true
			}
		}
	}
	return 0, false
}

// Release releases ports; ports that are already free are not an error.
func (p *Ports) Release(ctx context.Context, ports ...int32) error {
	return p.change(ctx, func(used *big.Int) error {
		for _, port := range ports {
			if p.Check(port) == nil {
				used.SetBit(used, int(port-p.ports.First), 0)
			}
		}
		return nil
	})
}

// Used returns the ports that are taken.
func (p *Ports) Used(ctx context.Context) ([]int32, error) {
	obj, err := p.store.Get(ctx, p.kind, "", portsName)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the node ports in use: %w", err)
	}
	used, err := p.bitmap(obj)
	if err != nil {
		return nil, err
	}
	var ports []int32
	for bit := range int(p.ports.Last-p.ports.First) + 1 {
		if used.Bit(bit) == 1 {
			ports = append(ports, p.ports.First+int32(bit))
		}
	}
	return ports, nil
}

// Record marks ports as taken, whether they were or not: the services decide.
func (p *Ports) Record(ctx context.Context, ports []int32) error {
	return p.change(ctx, func(used *big.Int) error {
		for _, port := range ports {
			if p.Check(port) == nil {
				used.SetBit(used, int(port-p.ports.First), 1)
			}
		}
		return nil
	})
}

// change changes the bitmap in one guarded transaction, and retries if another writer was faster.
func (p *Ports) change(ctx context.Context, change func(used *big.Int) error) error {
	for {
		_, err := p.store.Update(ctx, p.kind, "", portsName, func(current scheme.Object) (scheme.Object, error) {
			used, err := p.bitmap(current)
			if err != nil {
				return nil, err
			}
			if err := change(used); err != nil {
				return nil, err
			}
			return p.object(current, used), nil
		})
		if !apierrors.IsNotFound(err) {
			return err
		}
		fresh := &corev1.RangeAllocation{ObjectMeta: metav1.ObjectMeta{Name: portsName}}
		if _, err := p.store.Create(ctx, p.kind, p.object(fresh, new(big.Int))); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("recording the node ports in use: %w", err)
		}
	}
}

func (p *Ports) bitmap(obj scheme.Object) (*big.Int, error) {
	allocation, ok := obj.(*corev1.RangeAllocation)
	if !ok {
		return nil, fmt.Errorf("reading the node ports in use: etcd holds a %T", obj)
	}
	if allocation.Range != p.ports.String() {
		return nil, fmt.Errorf("the node port range is %s, but etcd holds the ports in use of %s: start with that range", p.ports, allocation.Range)
	}
	return new(big.Int).SetBytes(allocation.Data), nil
}

func (p *Ports) object(obj scheme.Object, used *big.Int) scheme.Object {
	if allocation, ok := obj.(*corev1.RangeAllocation); ok {
		allocation.Range, allocation.Data = p.ports.String(), used.Bytes()
	}
	return obj
}
