package systemobjects

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/allocate"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// maxRanges is the maximum number of service address ranges that a cluster is started with: one of
// each family.
const maxRanges = 2

// checkRanges requires one range, or two of different families.
func checkRanges(prefixes []netip.Prefix) error {
	if len(prefixes) == 0 {
		return fmt.Errorf("no service range given")
	}
	if len(prefixes) > maxRanges {
		return fmt.Errorf("%d service ranges given, but at most one of each address family is allowed", len(prefixes))
	}
	for _, prefix := range prefixes {
		if !prefix.IsValid() {
			return fmt.Errorf("a service range is not a range of addresses")
		}
		if err := allocate.NewRange(prefix).Check(); err != nil {
			return err
		}
	}
	if len(prefixes) == maxRanges && prefixes[0].Addr().Is4() == prefixes[1].Addr().Is4() {
		return fmt.Errorf("the service ranges %s and %s must be of different IP family", prefixes[0], prefixes[1])
	}
	return nil
}

// ensureRange creates the ServiceCIDR with the ranges that the apiserver was started with, unless
// it exists, and sets its Ready condition. It never changes existing ranges, but adds the second
// address family to the first.
func (o *Objects) ensureRange(ctx context.Context) error {
	var wanted []string
	for _, prefix := range o.ServiceCIDRs {
		wanted = append(wanted, prefix.Masked().String())
	}
	if err := o.ensure(ctx, &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: allocate.DefaultRange}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: wanted},
	}); err != nil {
		return err
	}
	kind := scheme.For[*networkingv1.ServiceCIDR](o.Table)
	obj, err := o.Store.Get(ctx, kind, "", allocate.DefaultRange)
	if err != nil {
		return fmt.Errorf("reading the default service range: %w", err)
	}
	current, ok := obj.(*networkingv1.ServiceCIDR)
	if !ok || current.DeletionTimestamp != nil {
		return nil
	}
	if len(wanted) == maxRanges && slices.Equal(current.Spec.CIDRs, wanted[:1]) {
		if err := o.changeRange(ctx, "", func(c *networkingv1.ServiceCIDR) {
			if slices.Equal(c.Spec.CIDRs, wanted[:1]) {
				c.Spec.CIDRs = wanted
			}
		}); err != nil {
			return err
		}
		current.Spec.CIDRs = wanted
	}
	if !apiequality.Semantic.DeepEqual(current.Spec.CIDRs, wanted) {
		o.mismatch.Do(func() {
			o.Logger.Warn("the default service range is not the one that this apiserver was started with", "range", current.Spec.CIDRs, "configured", wanted)
		})
		return nil
	}
	if known := meta.FindStatusCondition(current.Status.Conditions, networkingv1.ServiceCIDRConditionReady); known != nil && known.Status != metav1.ConditionUnknown {
		return nil
	}
	return o.changeRange(ctx, "status", func(c *networkingv1.ServiceCIDR) {
		meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
			Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, Message: "Kubernetes default Service CIDR is ready",
		})
	})
}

func (o *Objects) changeRange(ctx context.Context, subresource string, change func(*networkingv1.ServiceCIDR)) error {
	resource := o.Registry.Resource(scheme.For[*networkingv1.ServiceCIDR](o.Table))
	_, err := resource.Update(ctx, "", allocate.DefaultRange, func(current scheme.Object) (scheme.Object, error) {
		cidr, ok := current.DeepCopyObject().(*networkingv1.ServiceCIDR)
		if !ok {
			return nil, fmt.Errorf("reading the default service range: found a %T", current)
		}
		change(cidr)
		return cidr, nil
	}, registry.UpdateOptions{Subresource: subresource, FieldManager: writer})
	if err != nil {
		return fmt.Errorf("updating the default service range: %w", err)
	}
	return nil
}
