// Package servicecidrs keeps every ServiceCIDR for as long as a service has an address in it that
// no other ServiceCIDR covers (kubernetes, pkg/controller/servicecidrs).
package servicecidrs

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/control"
)

const (
	// name is Kubernetes' name for the work queue and its metrics.
	name           = "service_cidr_controller"
	fieldManager   = "service-cidr-controller"
	defaultWorkers = 5

	// finalizer keeps a ServiceCIDR whose addresses are in use.
	finalizer = "networking.k8s.io/service-cidr-finalizer"
	// allocated selects the addresses that services have.
	allocated = networkingv1.LabelManagedBy + "=ipallocator.k8s.io"
	// grace is how long a ServiceCIDR stays at least after its deletion was requested: by then, an
	// allocator that had not learned of the deletion is done.
	grace = 10 * time.Second
)

// Controller is the controller of ServiceCIDRs.
type Controller struct {
	cfg       control.Config
	cidrs     informer.SharedInformer[*networkingv1.ServiceCIDR]
	addresses informer.SharedInformer[*networkingv1.IPAddress]
	client    client.Resource[*networkingv1.ServiceCIDR]
}

// New returns the controller and requests its informers.
func New(cfg control.Config) (*Controller, error) {
	return &Controller{
		cfg:       cfg,
		cidrs:     informer.For[*networkingv1.ServiceCIDR](cfg.Informers),
		addresses: informer.For[*networkingv1.IPAddress](cfg.Informers),
		client:    client.Of[*networkingv1.ServiceCIDR](cfg.Client),
	}, nil
}

// Run reconciles until ctx ends. It may be called again after it has returned.
func (c *Controller) Run(ctx context.Context) error {
	var handlers control.Handlers
	queue := reconcile.New(reconcile.Config[string]{
		Name: name, Workers: c.cfg.WorkersOr(defaultWorkers), Resource: "servicecidrs",
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			return control.Requeue(c.reconcile(ctx, key))
		},
		WaitFor: handlers.Checkers, Reads: &handlers.Reads,
		Logger: c.cfg.Logger, Registerer: c.cfg.Registerer, Trace: c.cfg.Trace,
	})
	// A deleted ServiceCIDR waits for its addresses to be released, or for another ServiceCIDR to
	// cover them.
	enqueueDeleted := func() {
		for _, cidr := range c.cidrs.Indexer().List() {
			if cidr.DeletionTimestamp != nil {
				queue.Enqueue(cidr.Name)
			}
		}
	}
	changed := func(cidr *networkingv1.ServiceCIDR) {
		queue.Enqueue(cidr.Name)
		enqueueDeleted()
	}
	err := control.Handle(&handlers, c.cidrs, informer.ResourceEventHandlerFuncs[*networkingv1.ServiceCIDR]{
		AddFunc:    func(cidr *networkingv1.ServiceCIDR, _ bool) { changed(cidr) },
		UpdateFunc: func(_, cidr *networkingv1.ServiceCIDR) { changed(cidr) },
		DeleteFunc: func(informer.DeletedObject[*networkingv1.ServiceCIDR]) { enqueueDeleted() },
	})
	if err == nil {
		err = control.Handle(&handlers, c.addresses, informer.ResourceEventHandlerFuncs[*networkingv1.IPAddress]{
			DeleteFunc: func(informer.DeletedObject[*networkingv1.IPAddress]) { enqueueDeleted() },
		})
	}
	if err == nil {
		err = queue.Run(ctx)
	}
	return handlers.Remove(err)
}

func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	cidr, found := c.cidrs.Indexer().GetByKey(key)
	switch {
	case !found:
		return reconcile.Result{}, nil
	case cidr.DeletionTimestamp == nil:
		return reconcile.Result{}, c.keep(ctx, cidr)
	case !slices.Contains(cidr.Finalizers, finalizer):
		return reconcile.Result{}, nil // Only other finalizers hold it now.
	case c.needed(cidr, c.addresses.Indexer().List()):
		return reconcile.Result{}, c.report(ctx, cidr, metav1.Condition{
			Status: metav1.ConditionFalse, Reason: networkingv1.ServiceCIDRReasonTerminating,
			Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
		})
	}
	if left := grace - time.Since(cidr.DeletionTimestamp.Time); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	return c.release(ctx, cidr)
}

// keep reports a ServiceCIDR as ready, after adding the finalizer if it lacks it.
func (c *Controller) keep(ctx context.Context, cidr *networkingv1.ServiceCIDR) error {
	if !slices.Contains(cidr.Finalizers, finalizer) {
		next := cidr.DeepCopy()
		next.Finalizers = append(next.Finalizers, finalizer)
		written, err := c.client.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
		if err != nil {
			return gone(fmt.Errorf("holding ServiceCIDR %s: %w", cidr.Name, err))
		}
		cidr = written
	}
	return c.report(ctx, cidr, metav1.Condition{Status: metav1.ConditionTrue, Message: "Kubernetes Service CIDR is ready"})
}

// report writes whether a ServiceCIDR is ready, unless its status already says so.
func (c *Controller) report(ctx context.Context, cidr *networkingv1.ServiceCIDR, ready metav1.Condition) error {
	ready.Type = networkingv1.ServiceCIDRConditionReady
	if meta.IsStatusConditionPresentAndEqual(cidr.Status.Conditions, ready.Type, ready.Status) {
		return nil
	}
	next := cidr.DeepCopy()
	meta.SetStatusCondition(&next.Status.Conditions, ready)
	if _, err := c.client.UpdateStatus(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
		return gone(fmt.Errorf("writing the status of ServiceCIDR %s: %w", cidr.Name, err))
	}
	return nil
}

// release removes the finalizer if a fresh list shows no address that needs the ServiceCIDR: the
// cache may be behind.
func (c *Controller) release(ctx context.Context, cidr *networkingv1.ServiceCIDR) (reconcile.Result, error) {
	addresses, _, err := client.Of[*networkingv1.IPAddress](c.cfg.Client).List(ctx, "", metav1.ListOptions{LabelSelector: allocated})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("listing the addresses of ServiceCIDR %s: %w", cidr.Name, err)
	}
	if c.needed(cidr, addresses) {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	next := cidr.DeepCopy()
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == finalizer })
	if _, err := c.client.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
		return reconcile.Result{}, gone(fmt.Errorf("releasing ServiceCIDR %s: %w", cidr.Name, err))
	}
	c.cfg.Logger.Info("service CIDR released", "name", cidr.Name)
	return reconcile.Result{}, nil
}

// needed reports whether a service has an address in cidr that no other remaining ServiceCIDR
// covers.
func (c *Controller) needed(cidr *networkingv1.ServiceCIDR, addresses []*networkingv1.IPAddress) bool {
	own := prefixes(cidr)
	var others []netip.Prefix
	for _, other := range c.cidrs.Indexer().List() {
		if other.Name != cidr.Name && other.DeletionTimestamp == nil {
			others = append(others, prefixes(other)...)
		}
	}
	return slices.ContainsFunc(addresses, func(address *networkingv1.IPAddress) bool {
		if address.Labels[networkingv1.LabelManagedBy] != "ipallocator.k8s.io" {
			return false
		}
		ip, err := netip.ParseAddr(address.Name)
		has := func(prefix netip.Prefix) bool { return prefix.Contains(ip) }
		return err == nil && slices.ContainsFunc(own, has) && !slices.ContainsFunc(others, has)
	})
}

// prefixes returns the ranges of a ServiceCIDR.
func prefixes(cidr *networkingv1.ServiceCIDR) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range cidr.Spec.CIDRs {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			all = append(all, prefix.Masked())
		}
	}
	return all
}

// gone returns nil for an error that says that the written object no longer exists, and err
// otherwise.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
