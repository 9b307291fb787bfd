package registry

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission/priority"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/allocate"
	"github.com/garboard/garboard/services/apiserver/internal/registry/builtin"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

const (
	// The Service by which pods reach the API, and the port that it always has.
	apiService     = "kubernetes"
	apiServicePort = 443
	// upkeepEvery is the interval of the upkeep of the apiserver's own objects.
	upkeepEvery = 10 * time.Second
	// How often, and how many times, an apiserver checks whether another one has created the
	// `kubernetes` Service whose address is taken.
	addressEvery    = 100 * time.Millisecond
	addressAttempts = 30
	// repairEvery is how often addresses and ports are compared with the services that hold them;
	// Kubernetes' interval.
	repairEvery = 3 * time.Minute
)

// systemNamespaces always exist.
func systemNamespaces() []string {
	return []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}
}

// Run maintains the objects that the apiserver owns: the system namespaces, the `kubernetes`
// Service, and the records of the addresses and ports in use. It returns when ctx ends. Several
// apiservers may run it at once.
func (r *Registry) Run(ctx context.Context) error {
	upkeep, repair := time.NewTicker(upkeepEvery), time.NewTicker(repairEvery)
	defer upkeep.Stop()
	defer repair.Stop()
	leaked := allocate.Leaked{}
	r.try(ctx, "creating the system's objects", r.Bootstrap)
	r.try(ctx, "repairing service addresses", func(ctx context.Context) error { return r.repair(ctx, leaked) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-upkeep.C:
			r.try(ctx, "maintaining the system's objects", r.Bootstrap)
		case <-repair.C:
			r.try(ctx, "repairing service addresses", func(ctx context.Context) error { return r.repair(ctx, leaked) })
		}
	}
}

func (r *Registry) try(ctx context.Context, what string, do func(context.Context) error) {
	if err := do(ctx); err != nil && ctx.Err() == nil {
		r.log.Error("upkeep failed; will retry", "what", what, "err", err)
	}
}

// Bootstrap creates the missing ones of these objects: the system namespaces, the system's priority
// classes, the objects that describe the apiserver, the default range of service addresses and the
// `kubernetes` Service. It may be called before Run, so that the first request finds them.
func (r *Registry) Bootstrap(ctx context.Context) error {
	for _, name := range systemNamespaces() {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := r.ensure(ctx, namespace); err != nil {
			return err
		}
	}
	for _, class := range priority.SystemClasses() {
		if err := r.ensure(ctx, class); err != nil {
			return err
		}
	}
	if err := builtin.Ensure(ctx, r.table, r.config.Store, r.ensure); err != nil {
		return err
	}
	if err := r.ensureRange(ctx); err != nil {
		return err
	}
	return r.ensureService(ctx, r.apiServiceObject())
}

// ensureService creates the `kubernetes` Service unless it exists. Its address may be taken
// already: for a moment by another apiserver that is just creating the Service, or for good by one
// that died in the process. In the latter case ensureService drops the record of the address.
func (r *Registry) ensureService(ctx context.Context, service *corev1.Service) error {
	ticker := time.NewTicker(addressEvery)
	defer ticker.Stop()
	for range addressAttempts {
		err := r.ensure(ctx, service.DeepCopy())
		if !apierrors.IsInvalid(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
	if err := r.config.Services.Forget(ctx, r.config.firstAddress(), types.NamespacedName{Namespace: service.Namespace, Name: service.Name}); err != nil {
		return err
	}
	return r.ensure(ctx, service)
}

func apiServicePortOf(target uint16) corev1.ServicePort {
	return corev1.ServicePort{
		Name: "https", Protocol: corev1.ProtocolTCP, Port: apiServicePort, TargetPort: intstr.FromInt32(int32(target)),
	}
}

func (r *Registry) advertisedPort() uint16 {
	if r.config.Advertise.IsValid() {
		return r.config.Advertise.Port()
	}
	return apiServicePort
}

// ensure creates an object unless it exists.
func (r *Registry) ensure(ctx context.Context, obj scheme.Object) error {
	resource := r.Resource(r.table.KindOf(obj))
	_, err := r.config.Store.Get(ctx, resource.stored, obj.GetNamespace(), obj.GetName())
	if apierrors.IsNotFound(err) {
		_, err = resource.Create(ctx, obj.GetNamespace(), obj, metav1.CreateOptions{FieldManager: ownWriter})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating %s %s: %w", resource.kind.Kind, obj.GetName(), err)
	}
	return nil
}

// repair compares what is recorded as taken with what services hold.
func (r *Registry) repair(ctx context.Context, leaked allocate.Leaked) error {
	return r.config.Services.Repair(ctx, leaked, func(ctx context.Context) ([]*corev1.Service, error) {
		page, err := r.config.Store.List(ctx, scheme.For[*corev1.Service](r.table), store.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing services: %w", err)
		}
		var services []*corev1.Service
		for _, obj := range page.Objects {
			if service, ok := obj.(*corev1.Service); ok {
				services = append(services, service)
			}
		}
		return services, nil
	})
}
