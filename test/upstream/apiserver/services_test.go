package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/service"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	servicestorage "k8s.io/kubernetes/pkg/registry/core/service/storage"
)

// completion is what Kubernetes' registry, instead of a strategy, does with an object.
type completion struct {
	// begin completes an object before the strategy sees it; old is nil at creation. finish removes from an
	// accepted object what the answers leave out.
	begin func(ctx context.Context, obj, old runtime.Object) (finish func(), err error)
	// read completes an object that is read from storage.
	read func(obj runtime.Object)
}

// services returns how Kubernetes completes services in a cluster that has only IPv4. The addresses and
// ports that it allocates are not among the answers: they depend on other services.
func services() (completion, error) {
	given := &ports{}
	options := generic.RESTOptions{
		StorageConfig: &storagebackend.ConfigForResource{}, ResourcePrefix: "services", Decorator: nothingStored,
	}
	registry, _, _, err := servicestorage.NewREST(options, core.IPv4Protocol,
		map[core.IPFamily]ipallocator.Interface{core.IPv4Protocol: &pool{}}, given, nil, nil, nil)
	if err != nil {
		return completion{}, err
	}
	return completion{
		begin: func(ctx context.Context, obj, old runtime.Object) (func(), error) {
			given.last = firstPort
			sent := obj.DeepCopyObject().(*core.Service)
			var err error
			if old == nil {
				_, err = registry.BeginCreate(ctx, obj, &metav1.CreateOptions{})
			} else {
				if was := old.(*core.Service); service.NeedsHealthCheck(was) && was.Spec.HealthCheckNodePort == 0 {
					given.last++ // An update requires the port that an answer left out.
					was.Spec.HealthCheckNodePort = int32(given.last)
				}
				_, err = registry.BeginUpdate(ctx, obj, old, &metav1.UpdateOptions{})
			}
			return func() { withoutAllocated(obj.(*core.Service), sent, given.last) }, err
		},
		read: registry.Decorator,
	}, nil
}

// withoutAllocated removes from a service what the allocators below gave it.
func withoutAllocated(s, sent *core.Service, last int) {
	allocated := func(port, sent int32) bool { return sent == 0 && port > firstPort && int(port) <= last }
	if s.Spec.ClusterIP == allocatedIP && sent.Spec.ClusterIP != allocatedIP {
		s.Spec.ClusterIP = ""
	}
	if slices.Contains(s.Spec.ClusterIPs, allocatedIP) && !slices.Contains(sent.Spec.ClusterIPs, allocatedIP) {
		s.Spec.ClusterIPs = nil
	}
	for i := range s.Spec.Ports {
		if allocated(s.Spec.Ports[i].NodePort, sent.Spec.Ports[i].NodePort) {
			s.Spec.Ports[i].NodePort = 0
		}
	}
	if allocated(s.Spec.HealthCheckNodePort, sent.Spec.HealthCheckNodePort) {
		s.Spec.HealthCheckNodePort = 0
	}
}

// What the allocators give: values that no test object has.
const (
	allocatedIP = "198.18.7.7"
	firstPort   = 47000
)

// pool is a range of addresses in which every address is free.
type pool struct{}

func (*pool) Allocate(net.IP) error           { return nil }
func (*pool) AllocateNext() (net.IP, error)   { return net.ParseIP(allocatedIP), nil }
func (*pool) Release(net.IP) error            { return nil }
func (*pool) ForEach(func(net.IP))            {}
func (*pool) CIDR() net.IPNet                 { return net.IPNet{} }
func (*pool) IPFamily() core.IPFamily         { return core.IPv4Protocol }
func (*pool) Has(net.IP) bool                 { return true }
func (*pool) Destroy()                        {}
func (*pool) EnableMetrics()                  {}
func (p *pool) DryRun() ipallocator.Interface { return p }

// ports is a range of ports in which every port is free.
type ports struct{ last int }

func (*ports) Allocate(int) error           { return nil }
func (p *ports) AllocateNext() (int, error) { p.last++; return p.last, nil }
func (*ports) Release(int) error            { return nil }
func (*ports) ForEach(func(int))            {}
func (*ports) Has(int) bool                 { return true }
func (*ports) Destroy()                     {}
func (*ports) EnableMetrics()               {}

// nothingStored returns a storage that nothing uses.
func nothingStored(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object,
	func() runtime.Object, storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	return struct{ storage.Interface }{}, func() {}, nil
}

// causes returns the errors in fields of an error that a registry returned, in the form of Answer.Errors.
func causes(err error) ([]string, error) {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) || status.ErrStatus.Details == nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	var found []string
	for _, cause := range status.ErrStatus.Details.Causes {
		kind, rest, _ := strings.Cut(cause.Message, ": ")
		switch metav1.CauseType(cause.Type) {
		case metav1.CauseTypeFieldValueRequired, metav1.CauseTypeForbidden:
		default: // The value comes before the detail.
			values := json.NewDecoder(strings.NewReader(rest))
			var value any
			if err := values.Decode(&value); err != nil {
				return nil, fmt.Errorf("%w: reading %q: %w", ErrNoAnswer, cause.Message, err)
			}
			rest = strings.TrimPrefix(rest[values.InputOffset():], ": ")
		}
		detail, _, _ := strings.Cut(rest, "\n")
		found = append(found, fmt.Sprintf("%s: %s: %s", cause.Field, kind, detail))
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}
