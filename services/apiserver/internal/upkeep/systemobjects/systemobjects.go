package systemobjects

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission/priority"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/allocate"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

const (
	// writer is the field manager of these writes; the name is Kubernetes'.
	writer = "kube-apiserver"
	// upkeepEvery is the interval at which missing objects are created again.
	upkeepEvery = 10 * time.Second
	// repairEvery is how often addresses and ports are compared with the services that hold them;
	// Kubernetes' interval.
	repairEvery = 3 * time.Minute
)

// Config configures an Objects. All fields except Advertise, ClientCAs, FrontProxy and Logger are
// required.
type Config struct {
	Table    *scheme.Table
	Registry *registry.Registry
	Store    *store.Store
	// Services is the allocator that the registry uses too.
	Services *allocate.Services
	// ServiceCIDRs are the ranges of service cluster IPs that the cluster starts with: one, or two
	// of different address families, the default one first. Further ranges are ServiceCIDR objects.
	// The first address is the `kubernetes` Service's.
	ServiceCIDRs []netip.Prefix
	// Advertise is the address at which pods reach this apiserver. Its port is the `kubernetes`
	// Service's target port; 443 if it is not valid.
	Advertise netip.AddrPort
	// ClientCAs returns the authorities of accepted client certificates, as they are now; nil if
	// there are none.
	ClientCAs func() []*x509.Certificate
	// FrontProxy is which front proxies are trusted, and so may call API servers of others in the
	// name of users; nil if there are none.
	FrontProxy *FrontProxy
	// DNS has the Service by which pods ask the node agents' DNS servers created.
	DNS bool
	// Logger receives what fails; slog.Default if nil.
	Logger *slog.Logger
}

// FrontProxy is how the requests of front proxies are known.
type FrontProxy struct {
	// CAs returns the authorities of their client certificates, as they are now.
	CAs func() []*x509.Certificate
	// AllowedNames are the common names of these certificates; any if empty. The others are the
	// headers, and the beginnings of headers, in which they name the user.
	AllowedNames, UsernameHeaders, UIDHeaders, GroupHeaders, ExtraHeaderPrefixes []string
}

// Objects maintains the system's objects. Several apiservers may do that at once.
type Objects struct {
	Config
	mismatch sync.Once       // guards the warning that the default range is not the configured one
	leaked   allocate.Leaked // of the repairs so far
	tracking *rate.Limiter   // of the creation of the ConfigMap that says since when tokens are tracked
}

// New returns Objects, or an error if the ranges cannot be used. It starts and writes nothing.
func New(config Config) (*Objects, error) {
	if err := checkRanges(config.ServiceCIDRs); err != nil {
		return nil, fmt.Errorf("maintaining the system's objects: %w", err)
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	return &Objects{Config: config, leaked: allocate.Leaked{}, tracking: rate.NewLimiter(rate.Every(trackingEvery), 1)}, nil
}

// Run maintains the objects and the records of addresses and ports. It returns when ctx ends.
func (o *Objects) Run(ctx context.Context) error {
	upkeep, repair := time.NewTicker(upkeepEvery), time.NewTicker(repairEvery)
	defer upkeep.Stop()
	defer repair.Stop()
	o.try(ctx, "creating the system's objects", o.Ensure)
	o.try(ctx, "repairing service addresses", o.Repair)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-upkeep.C:
			o.try(ctx, "maintaining the system's objects", o.Ensure)
		case <-repair.C:
			o.try(ctx, "repairing service addresses", o.Repair)
		}
	}
}

func (o *Objects) try(ctx context.Context, what string, do func(context.Context) error) {
	if err := do(ctx); err != nil && ctx.Err() == nil {
		o.Logger.Error("upkeep failed; will retry", "what", what, "err", err)
	}
}

// systemNamespaces always exist.
func systemNamespaces() []string {
	return []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}
}

// Ensure creates the objects that are missing, and updates the ConfigMaps that describe this server.
// A failure with those ConfigMaps is only logged. It may be called before Run, so that the first
// request finds them.
func (o *Objects) Ensure(ctx context.Context) error {
	for _, name := range systemNamespaces() {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := o.ensure(ctx, namespace); err != nil {
			return err
		}
	}
	for _, class := range priority.SystemClasses() {
		if err := o.ensure(ctx, class); err != nil {
			return err
		}
	}
	if err := o.ensureDescription(ctx); err != nil {
		return err
	}
	if err := o.ensureRange(ctx); err != nil {
		return err
	}
	if err := o.ensureService(ctx, o.service()); err != nil {
		return err
	}
	if err := o.ensure(ctx, networkAccount()); err != nil {
		return err
	}
	// Users may have written anything into these, which must not keep a server from starting. So may they have
	// given the DNS servers' address to another Service.
	if service := o.dnsService(); service != nil {
		o.try(ctx, "creating the Service of the DNS servers", func(ctx context.Context) error { return o.ensure(ctx, service) })
	}
	o.try(ctx, "publishing how clients are authenticated", o.publishAuthentication)
	o.try(ctx, "publishing since when tokens are tracked", o.publishTracking)
	return nil
}

// ensure creates an object unless it exists.
func (o *Objects) ensure(ctx context.Context, obj scheme.Object) error {
	resource := o.Registry.Resource(o.Table.KindOf(obj))
	_, err := resource.Get(ctx, obj.GetNamespace(), obj.GetName())
	if apierrors.IsNotFound(err) {
		_, err = resource.Create(ctx, obj.GetNamespace(), obj, metav1.CreateOptions{FieldManager: writer})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating %s %s: %w", resource.Kind().Kind, obj.GetName(), err)
	}
	return nil
}

// Repair compares what is recorded as taken with what services hold. Calls must not overlap.
func (o *Objects) Repair(ctx context.Context) error {
	return o.Services.Repair(ctx, o.leaked, func(ctx context.Context) ([]*corev1.Service, error) {
		page, err := o.Store.List(ctx, scheme.For[*corev1.Service](o.Table), store.ListOptions{})
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
