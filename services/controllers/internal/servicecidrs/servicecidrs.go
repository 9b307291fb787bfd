// Package servicecidrs keeps every ServiceCIDR for as long as a service has an address in it that
// no other ServiceCIDR covers (kubernetes, pkg/controller/servicecidrs).
package servicecidrs

import (
	"context"
	"fmt"
	"log/slog"
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
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	// name is also the manager of the fields that the controller writes.
	name = "service-cidr-controller"
	// queue is Kubernetes' name for the work queue and its metrics.
	queue   = "service_cidr_controller"
	workers = 5

	// finalizer keeps a ServiceCIDR whose addresses are in use.
	finalizer = "networking.k8s.io/service-cidr-finalizer"
	// allocated selects the addresses that services have.
	allocated = networkingv1.LabelManagedBy + "=ipallocator.k8s.io"
	// grace is how long a ServiceCIDR stays at least after its deletion was requested: by then, an
	// allocator that had not learned of the deletion is done.
	grace = 10 * time.Second
)

// reconciler reconciles ServiceCIDRs.
type reconciler struct {
	cidrs     *controller.Objects[*networkingv1.ServiceCIDR]
	addresses informer.SharedInformer[*networkingv1.IPAddress]
	lists     client.Resource[*networkingv1.IPAddress]
	logger    *slog.Logger
}

// New declares the controller of ServiceCIDRs.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{
		cidrs: controller.For[*networkingv1.ServiceCIDR](d), addresses: informer.For[*networkingv1.IPAddress](d.Informers),
		lists: client.Of[*networkingv1.IPAddress](d.Client), logger: d.Logger,
	}
	r.cidrs.Handle = func(q controller.Queue, _, now *networkingv1.ServiceCIDR) {
		if now != nil {
			q.Add(now)
		}
		r.addDeleted(q)
	}
	released := func(q controller.Queue, _, now *networkingv1.IPAddress) {
		if now == nil {
			r.addDeleted(q)
		}
	}
	return &controller.Spec{
		Name: name, Queue: queue, Resource: "servicecidrs", Workers: workers, Unhurried: true,
		For: r.cidrs, Watches: []controller.Watch{controller.On(r.addresses, released)}, Reconcile: r.reconcile,
	}
}

// addDeleted asks for reconciles of the deleted ServiceCIDRs, which wait for their addresses to be released,
// or for another ServiceCIDR to cover them.
func (r *reconciler) addDeleted(q controller.Queue) {
	for _, cidr := range r.cidrs.In("") {
		if cidr.DeletionTimestamp != nil {
			q.Add(cidr)
		}
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	cidr, found := r.cidrs.Get(key)
	switch {
	case !found:
		return reconcile.Result{}, nil
	case cidr.DeletionTimestamp == nil:
		return reconcile.Result{}, r.keep(ctx, cidr)
	case !slices.Contains(cidr.Finalizers, finalizer):
		return reconcile.Result{}, nil // Only other finalizers hold it now.
	case r.needed(cidr, r.addresses.Indexer().List()):
		return reconcile.Result{}, r.report(ctx, cidr, metav1.Condition{
			Status: metav1.ConditionFalse, Reason: networkingv1.ServiceCIDRReasonTerminating,
			Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
		})
	}
	if left := grace - time.Since(cidr.DeletionTimestamp.Time); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	return r.release(ctx, cidr)
}

// keep reports a ServiceCIDR as ready, after adding the finalizer if it lacks it.
func (r *reconciler) keep(ctx context.Context, cidr *networkingv1.ServiceCIDR) error {
	if !slices.Contains(cidr.Finalizers, finalizer) {
		next := cidr.DeepCopy()
		next.Finalizers = append(next.Finalizers, finalizer)
		written, err := r.cidrs.Client.Update(ctx, next, metav1.UpdateOptions{FieldManager: name})
		if err != nil {
			return gone(fmt.Errorf("holding ServiceCIDR %s: %w", cidr.Name, err))
		}
		cidr = written
	}
	return r.report(ctx, cidr, metav1.Condition{Status: metav1.ConditionTrue, Message: "Kubernetes Service CIDR is ready"})
}

// report writes whether a ServiceCIDR is ready, unless its status already says so.
func (r *reconciler) report(ctx context.Context, cidr *networkingv1.ServiceCIDR, ready metav1.Condition) error {
	ready.Type = networkingv1.ServiceCIDRConditionReady
	if meta.IsStatusConditionPresentAndEqual(cidr.Status.Conditions, ready.Type, ready.Status) {
		return nil
	}
	next := cidr.DeepCopy()
	meta.SetStatusCondition(&next.Status.Conditions, ready)
	if _, err := r.cidrs.Client.UpdateStatus(ctx, next, metav1.UpdateOptions{FieldManager: name}); err != nil {
		return gone(fmt.Errorf("writing the status of ServiceCIDR %s: %w", cidr.Name, err))
	}
	return nil
}

// release removes the finalizer if a fresh list shows no address that needs the ServiceCIDR: the
// cache may be behind.
func (r *reconciler) release(ctx context.Context, cidr *networkingv1.ServiceCIDR) (reconcile.Result, error) {
	addresses, _, err := r.lists.List(ctx, "", metav1.ListOptions{LabelSelector: allocated})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("listing the addresses of ServiceCIDR %s: %w", cidr.Name, err)
	}
	if r.needed(cidr, addresses) {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	next := cidr.DeepCopy()
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == finalizer })
	if _, err := r.cidrs.Client.Update(ctx, next, metav1.UpdateOptions{FieldManager: name}); err != nil {
		return reconcile.Result{}, gone(fmt.Errorf("releasing ServiceCIDR %s: %w", cidr.Name, err))
	}
	r.logger.Info("service CIDR released", "name", cidr.Name)
	return reconcile.Result{}, nil
}

// needed reports whether a service has an address in cidr that no other remaining ServiceCIDR
// covers.
func (r *reconciler) needed(cidr *networkingv1.ServiceCIDR, addresses []*networkingv1.IPAddress) bool {
	own := prefixes(cidr)
	var others []netip.Prefix
	for _, other := range r.cidrs.Indexer().List() {
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
