// Package kubernetesservice publishes the apiservers of a plane. The address of each live apiserver
// is in the Endpoints and the EndpointSlice of the `kubernetes` Service. It is removed when the
// apiserver stops, or at the latest 15 s after it died. Each apiserver also has an identity Lease
// in kube-system. All of this works as in Kubernetes, whose apiservers may be members too.
//
// The Service itself, with its cluster IP, is package systemobjects'.
package kubernetesservice

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

const (
	// service is the Service through which pods reach the API, in the default namespace.
	service = "kubernetes"
	// portName is the name of its port.
	portName = "https"
	// skipMirror keeps other programs from mirroring the endpoints to slices, since this package
	// writes both.
	skipMirror = "endpointslice.kubernetes.io/skip-mirror"
	// writer is the field manager of these writes; the name is Kubernetes'.
	writer = "kube-apiserver"
	// upkeepEvery is how often a member renews its registration, and life how long a registration
	// lasts. Both are Kubernetes' values.
	upkeepEvery = 10 * time.Second
	life        = 15 * time.Second
	// leaveTimeout bounds leaving; what remains expires by itself.
	leaveTimeout = 5 * time.Second
)

// Store holds the addresses of the live members.
type Store interface {
	KeepMember(ctx context.Context, address netip.Addr, life time.Duration) error
	ForgetMember(ctx context.Context, address netip.Addr) error
	Members(ctx context.Context) ([]netip.Addr, error)
}

// Config configures a Member. All fields except the addresses are required.
type Config struct {
	Table    *scheme.Table
	Store    Store
	Registry *registry.Registry
	// Address is where pods reach this apiserver. If it is not valid, the apiserver is not an
	// endpoint, and if no other apiserver is live, there are no endpoints.
	Address netip.AddrPort
	// PeerAddress is where other apiservers reach this one, HOST:PORT; empty if they cannot.
	PeerAddress string
	// Hostname distinguishes this apiserver from the others.
	Hostname string
	Logger   *slog.Logger
}

// Member is one apiserver.
type Member struct {
	Config
	identity identity

	mu   sync.Mutex // held while endpoints are written
	left bool
}

// New returns a member, which is not published before Reconcile.
func New(cfg Config) *Member { return &Member{Config: cfg, identity: newIdentity(cfg.Hostname)} }

// Run keeps the member published until ctx ends.
func (m *Member) Run(ctx context.Context) error {
	upkeep, sweep := time.NewTicker(upkeepEvery), time.NewTicker(sweepEvery)
	defer upkeep.Stop()
	defer sweep.Stop()
	if !m.Address.IsValid() {
		m.Logger.Warn("pods cannot reach this apiserver, and it is not an endpoint of the kubernetes Service: it listens only on loopback; set an address with --listen or --advertise-address")
	}
	m.try(ctx, "renewing the identity Lease", m.renew)
	m.try(ctx, "deleting old identity Leases", m.sweep)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-upkeep.C:
			m.try(ctx, "keeping the endpoints of the kubernetes Service", m.Reconcile)
			m.try(ctx, "renewing the identity Lease", m.renew)
		case <-sweep.C:
			m.try(ctx, "deleting old identity Leases", m.sweep)
		}
	}
}

func (m *Member) try(ctx context.Context, what string, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, upkeepEvery)
	defer cancel()
	if err := do(ctx); err != nil && ctx.Err() == nil {
		m.Logger.Error("upkeep failed; retrying", "what", what, "err", err)
	}
}

// Reconcile renews this member's registration and updates the endpoints.
func (m *Member) Reconcile(ctx context.Context) error {
	if !m.Address.IsValid() {
		return m.withdraw(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left {
		return nil
	}
	if err := m.Store.KeepMember(ctx, m.Address.Addr(), life); err != nil {
		return err
	}
	return m.publish(ctx)
}

// Leave removes this member from the endpoints for good. If that fails, another member removes it.
func (m *Member) Leave(ctx context.Context) {
	if !m.Address.IsValid() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = true
	err := m.Store.ForgetMember(ctx, m.Address.Addr())
	if err == nil {
		err = m.publish(ctx)
	}
	if err != nil {
		m.Logger.Warn("removing this apiserver from the kubernetes Service failed; it stays an endpoint until its registration expires", "address", m.Address.Addr(), "err", err)
	}
}

// publish writes the endpoints of the live members.
func (m *Member) publish(ctx context.Context) error {
	about := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: service}
	err := write(ctx, m, &corev1.Endpoints{ObjectMeta: about}, func(endpoints *corev1.Endpoints, living []netip.Addr) {
		if endpoints.Labels == nil {
			endpoints.Labels = map[string]string{}
		}
		endpoints.Labels[skipMirror] = "true"
		subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: portName, Port: m.port(), Protocol: corev1.ProtocolTCP}}}
		for _, address := range living {
			subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: address.String()})
		}
		endpoints.Subsets = []corev1.EndpointSubset{subset}
	})
	if err != nil {
		return err
	}
	return m.publishSlice(ctx, about)
}

func (m *Member) publishSlice(ctx context.Context, about metav1.ObjectMeta) error {
	family := discoveryv1.AddressTypeIPv4
	if m.Address.Addr().Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	if err := m.dropOther(ctx, about, family); err != nil {
		return err
	}
	name, protocol, port, ready := portName, corev1.ProtocolTCP, m.port(), true
	return write(ctx, m, &discoveryv1.EndpointSlice{ObjectMeta: about, AddressType: family}, func(slice *discoveryv1.EndpointSlice, living []netip.Addr) {
		labels := maps.Clone(slice.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		labels[discoveryv1.LabelServiceName] = service
		slice.Labels = labels
		slice.Endpoints = nil
		for _, address := range living {
			if address.Is6() == m.Address.Addr().Is6() {
				slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
					Addresses: []string{address.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
				})
			}
		}
		slice.Ports = []discoveryv1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &port}}
	})
}

// dropOther deletes the slice if it has another address family, which cannot be changed.
func (m *Member) dropOther(ctx context.Context, about metav1.ObjectMeta, family discoveryv1.AddressType) error {
	resource := m.Registry.Resource(scheme.For[*discoveryv1.EndpointSlice](m.Table))
	obj, err := resource.Get(ctx, about.Namespace, about.Name)
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if apierrors.IsNotFound(err) || ok && slice.AddressType == family {
		return nil
	}
	if err == nil {
		_, _, err = resource.Delete(ctx, about.Namespace, about.Name, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("replacing the EndpointSlice of the %s Service: %w", service, err)
	}
	return nil
}

// withdraw deletes the endpoints if no live apiserver can be reached by pods: those of earlier
// starts would lead nowhere.
func (m *Member) withdraw(ctx context.Context) error {
	living, err := m.Store.Members(ctx)
	if err != nil || len(living) > 0 {
		return err
	}
	for _, kind := range []*scheme.Kind{scheme.For[*corev1.Endpoints](m.Table), scheme.For[*discoveryv1.EndpointSlice](m.Table)} {
		_, _, err := m.Registry.Resource(kind).Delete(ctx, metav1.NamespaceDefault, service, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting the %s of the %s Service, which no apiserver serves: %w", kind.Kind, service, err)
		}
	}
	return nil
}

func (m *Member) port() int32 { return int32(m.Address.Port()) }

// write updates an object with change, which gets the live members. It reads them after the object,
// so that the last writer sees every member that wrote before.
func write[T scheme.Object](ctx context.Context, m *Member, fresh T, change func(obj T, living []netip.Addr)) error {
	kind := scheme.For[T](m.Table)
	resource := m.Registry.Resource(kind)
	changed := func(current scheme.Object) (scheme.Object, error) {
		obj, ok := current.DeepCopyObject().(T)
		if !ok {
			return nil, fmt.Errorf("found a %T", current)
		}
		living, err := m.Store.Members(ctx)
		if err != nil {
			return nil, err
		}
		if len(living) == 0 {
			// Either the last member is stopping or something is wrong. Kubernetes leaves the
			// endpoints alone in both cases.
			return current, nil
		}
		change(obj, living)
		if apiequality.Semantic.DeepEqual(current, obj) {
			return current, nil
		}
		return obj, nil
	}
	_, err := resource.Get(ctx, fresh.GetNamespace(), fresh.GetName())
	if apierrors.IsNotFound(err) {
		var obj scheme.Object
		if obj, err = changed(fresh); err == nil {
			_, err = resource.Create(ctx, fresh.GetNamespace(), obj, metav1.CreateOptions{FieldManager: writer})
		}
	}
	if err == nil || apierrors.IsAlreadyExists(err) {
		_, err = resource.Update(ctx, fresh.GetNamespace(), fresh.GetName(), changed, registry.UpdateOptions{FieldManager: writer})
	}
	if err != nil {
		return fmt.Errorf("writing the %s of the %s Service: %w", kind.Kind, service, err)
	}
	return nil
}
