// Package resourceclaims checks who may use devices as an administrator, and who may write which part of
// the status of a ResourceClaim. The checks are part of the API and cannot be configured, though they run
// as an admission plugin.
package resourceclaims

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// pluginName is the plugin's name, which is not one of Kubernetes'.
const pluginName = "ResourceClaimAuthorization"

// Config configures the checks; both fields are required.
type Config struct {
	Authorizer authz.Authorizer
	// Namespace reads a namespace. Its errors are apierrors.
	Namespace func(ctx context.Context, name string) (*corev1.Namespace, error)
}

// Plugin returns the plugin.
func Plugin(cfg Config) admission.Plugin {
	return admission.Plugin{Name: pluginName, Validate: func(ctx context.Context, req *admission.Request) error {
		errs := cfg.check(ctx, req)
		if len(errs) == 0 {
			return nil
		}
		return apierrors.NewInvalid(req.Kind.GroupKind(), req.Object.GetName(), errs)
	}}
}

func (c Config) check(ctx context.Context, req *admission.Request) field.ErrorList {
	switch obj := req.Object.(type) {
	case *resourcev1.ResourceClaim:
		switch {
		case req.Verb == admission.Create && req.Subresource == "":
			return c.requests(ctx, obj.Spec.Devices.Requests, obj.Namespace)
		case req.Verb == admission.Update && req.Subresource == "status":
			if old, ok := req.Old.(*resourcev1.ResourceClaim); ok {
				return c.status(ctx, req, obj, old)
			}
		}
	case *resourcev1.ResourceClaimTemplate:
		if req.Verb == admission.Create && req.Subresource == "" {
			return c.requests(ctx, obj.Spec.Spec.Devices.Requests, obj.Namespace)
		}
	}
	return nil
}

// requests refuses requests for the access of an administrator in other namespaces than theirs. The path of
// its error lacks a part, as in Kubernetes.
func (c Config) requests(ctx context.Context, requests []resourcev1.DeviceRequest, namespace string) field.ErrorList {
	for i := range requests {
		if exactly := requests[i].Exactly; exactly != nil && exactly.AdminAccess != nil && *exactly.AdminAccess {
			return c.administers(ctx, namespace, field.NewPath("spec", "devices", "requests").Index(i).Child("adminAccess"))
		}
	}
	return nil
}

// administers refuses a namespace that is not for administrators.
func (c Config) administers(ctx context.Context, name string, at *field.Path) field.ErrorList {
	namespace, err := c.Namespace(ctx, name)
	if err != nil {
		return field.ErrorList{field.InternalError(at, fmt.Errorf("could not retrieve namespace to verify admin access: %w", err))}
	}
	if namespace.Labels[resourcev1.DRAAdminNamespaceLabelKey] != "true" {
		return field.ErrorList{field.Forbidden(at, fmt.Sprintf("admin access to devices requires the `%s: true` label on the containing namespace",
			resourcev1.DRAAdminNamespaceLabelKey))}
	}
	return nil
}

// status checks the parts of the status that a write changes.
func (c Config) status(ctx context.Context, req *admission.Request, claim, old *resourcev1.ResourceClaim) field.ErrorList {
	var errs field.ErrorList
	if at := administered(claim.Status.Allocation); at != nil && administered(old.Status.Allocation) == nil {
		errs = c.administers(ctx, claim.Namespace, at)
	}
	user, ok := authn.UserFrom(ctx)
	if !ok {
		return errs // A write without a user is the apiserver's own.
	}
	w := write{Config: c, user: user, verb: "update", namespace: claim.Namespace}
	if _, patch := req.Options.(*metav1.PatchOptions); patch {
		w.verb = "patch"
	}
	errs = append(errs, w.binding(ctx, &claim.Status, &old.Status)...)
	if claim.Status.Allocation != nil {
		errs = append(errs, w.devices(ctx, &claim.Status, &old.Status)...)
	}
	return errs
}

// administered returns the path of the first result of an allocation with the access of an administrator;
// nil if there is none.
func administered(allocation *resourcev1.AllocationResult) *field.Path {
	if allocation == nil {
		return nil
	}
	for i, result := range allocation.Devices.Results {
		if result.AdminAccess != nil && *result.AdminAccess {
			return field.NewPath("status", "allocation", "devices", "results").Index(i).Child("adminAccess")
		}
	}
	return nil
}

// write is one write of a status.
type write struct {
	Config
	user            authn.User
	verb, namespace string
}

// may returns why the user may not do something with a part of claims, or nil if the user may.
func (w write) may(ctx context.Context, verb, part, namespace, name string) error {
	a := authz.Attributes{
		Verb: verb, Group: resourcev1.GroupName, Version: resourcev1.SchemeGroupVersion.Version, Resource: "resourceclaims", Subresource: part,
		Namespace: namespace, Name: name,
	}
	decision, reason, err := w.Authorizer.Authorize(ctx, w.user, a)
	if decision == authz.Allow {
		return nil
	}
	switch {
	case err != nil && reason != "":
		reason = fmt.Sprintf("%v: %s", err, reason)
	case err != nil:
		reason = err.Error()
	}
	return authz.Forbidden(w.user, a, reason)
}

// binding checks the right to allocate and reserve.
func (w write) binding(ctx context.Context, status, old *resourcev1.ResourceClaimStatus) field.ErrorList {
	if apiequality.Semantic.DeepEqual(status.Allocation, old.Allocation) && apiequality.Semantic.DeepEqual(status.ReservedFor, old.ReservedFor) {
		return nil
	}
	if err := w.may(ctx, w.verb, resourcev1.SubresourceBinding, "", ""); err != nil {
		return field.ErrorList{field.Forbidden(field.NewPath("status", "allocation"), fmt.Sprintf(
			`changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="%s" permission: %s`, w.verb, err))}
	}
	return nil
}

// devices checks the right to write the status of the devices of each driver.
func (w write) devices(ctx context.Context, status, old *resourcev1.ResourceClaimStatus) field.ErrorList {
	verbs := []string{resourcev1.VerbPrefixArbitraryNode + w.verb}
	if onNode(w.user, nodeOf(status.Allocation)) {
		verbs = []string{resourcev1.VerbPrefixAssociatedNode + w.verb, resourcev1.VerbPrefixArbitraryNode + w.verb}
	}
	var errs field.ErrorList
	for _, driver := range changed(status.Devices, old.Devices) {
		var first error
		for _, verb := range verbs {
			err := w.may(ctx, verb, resourcev1.SubresourceDriver, w.namespace, driver)
			if err == nil {
				first = nil
				break
			}
			if first == nil {
				first = err
			}
		}
		if first != nil {
			errs = append(errs, field.Forbidden(field.NewPath("status", "devices"), fmt.Sprintf(
				`changing status.devices requires resource="resourceclaims/driver", verb="%s" permission: %s`, verbs, first)))
		}
	}
	return errs
}

// changed returns the drivers of devices that are new, changed or gone, sorted.
func changed(devices, old []resourcev1.AllocatedDeviceStatus) []string {
	type key struct{ driver, pool, device, share string }
	keyOf := func(d *resourcev1.AllocatedDeviceStatus) key {
		k := key{driver: d.Driver, pool: d.Pool, device: d.Device}
		if d.ShareID != nil {
			k.share = *d.ShareID
		}
		return k
	}
	before := map[key]*resourcev1.AllocatedDeviceStatus{}
	for i := range old {
		before[keyOf(&old[i])] = &old[i]
	}
	var drivers []string
	for i := range devices {
		was := before[keyOf(&devices[i])]
		delete(before, keyOf(&devices[i]))
		if was == nil || !apiequality.Semantic.DeepEqual(*was, devices[i]) {
			drivers = append(drivers, devices[i].Driver)
		}
	}
	for k := range before {
		drivers = append(drivers, k.driver)
	}
	slices.Sort(drivers)
	return slices.Compact(drivers)
}

// nodeOf returns the only node that an allocation is for; empty if there is none.
func nodeOf(allocation *resourcev1.AllocationResult) string {
	if allocation == nil || allocation.NodeSelector == nil || len(allocation.NodeSelector.NodeSelectorTerms) != 1 {
		return ""
	}
	term := allocation.NodeSelector.NodeSelectorTerms[0]
	if len(term.MatchExpressions) != 0 || len(term.MatchFields) != 1 {
		return ""
	}
	f := term.MatchFields[0]
	if f.Key != metav1.ObjectNameField || f.Operator != corev1.NodeSelectorOpIn || len(f.Values) != 1 {
		return ""
	}
	return f.Values[0]
}

// onNode reports whether a user is a service account of a pod on a node.
func onNode(user authn.User, node string) bool {
	nodes := user.Extra[authn.ExtraNodeName]
	return node != "" && strings.HasPrefix(user.Name, "system:serviceaccount:") && len(nodes) == 1 && nodes[0] == node &&
		len(apivalidation.NameIsDNSSubdomain(nodes[0], false)) == 0
}
